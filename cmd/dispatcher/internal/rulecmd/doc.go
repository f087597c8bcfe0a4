// Package rulecmd is `dispatcher cancel`, `hold` and `rules`: operators stop jobs that are on their way.
//
// Package internal/rules keeps the rules, and each node applies them. The commands are over after a few seconds, whatever Redis
// does. They start no goroutine of their own.
package rulecmd
