// Package whycmd is `dispatcher why`: it says what a job or a limit of a running fleet waits for.
//
// Package internal/why asks the nodes. The command is over after a few seconds, whatever Redis
// does. It starts no goroutine of its own.
package whycmd
