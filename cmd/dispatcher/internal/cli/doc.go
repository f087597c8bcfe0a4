// Package cli is what all subcommands share: the command line that they hang on, how they
// read the settings, and how they print.
//
// It knows no subcommand, connects to nothing by itself and starts no goroutine.
package cli
