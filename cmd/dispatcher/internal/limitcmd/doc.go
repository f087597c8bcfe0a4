// Package limitcmd is `dispatcher limit`: it shows and changes the limits of a running fleet.
//
// throttle/control makes the changes. A command is over after a few seconds, whatever Redis
// does. It starts no goroutine.
package limitcmd
