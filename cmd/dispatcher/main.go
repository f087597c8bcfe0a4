// Command dispatcher sends jobs from Kafka to a provider, at a rate that a whole
// fleet of nodes keeps together. Each subcommand has a file of its own and
// returns an error; the program exits once, here, and with 0 only if what was
// asked for was done.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// net/http quotes what it does not understand there, which may be a payload.
	log.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for an orderly end. From then on signals have their
	// usual effect again, so that a second one ends the process at once.
	context.AfterFunc(ctx, stop)
	if err := newRoot(os.Environ).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "dispatcher:", err)
		os.Exit(1)
	}
}
