// Package cli is what all subcommands share: the command line that they hang on, how they
// read the settings, and how they print.
//
// It knows no subcommand and starts no goroutine. It connects to nothing by itself, except that the completion of a shell asks Redis
// for the names of limits, for a second at most.
package cli
