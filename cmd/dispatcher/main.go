// Command dispatcher sends jobs from Kafka to a provider, at a rate that a whole
// fleet of nodes keeps together. Each subcommand has a file or a package of its own
// and returns an error. The program exits once, here, and with 0 only if the command
// did what was asked for.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // the zones of calendar quotas, where the host has none
)

func main() {
	// net/http quotes input that it can't parse in this log. It may be a payload.
	log.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal starts an orderly stop. After it, signals have their usual
	// effect again: a second one ends the process at once.
	context.AfterFunc(ctx, stop)
	if err := newRoot(os.Environ).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "dispatcher:", err)
		os.Exit(1)
	}
}
