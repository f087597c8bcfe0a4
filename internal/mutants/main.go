package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
)

// parallel is how many tests run at once. Many laws are about time, so a busy machine
// would fail them.
const parallel = 2

var errNotHeld = errors.New("not every law is held by its test")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	area := flags.String("area", "", "take only the mutations of internal/mutants/`NAME`.yaml")
	dir := flags.String("dir", ".", "the module's root")
	if err := flags.Parse(args); err != nil {
		return err
	}
	all, err := load(*dir, *area)
	if err != nil {
		return err
	}
	return tryAll(ctx, *dir, all, out)
}

// tryAll tries every mutation, and reports in their order.
func tryAll(ctx context.Context, dir string, all []mutation, out io.Writer) error {
	built, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	cache, err := os.MkdirTemp("", "mutants-cache-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(cache) }()
	plain := newTests(dir, built)
	each(commands(all), func(args string) { plain.run(ctx, args) })
	if err := os.RemoveAll(built); err != nil { // all results are known
		return err
	}
	outcomes := make([]chan outcomeOf, len(all))
	for i := range outcomes {
		outcomes[i] = make(chan outcomeOf, 1)
	}
	var printed sync.WaitGroup
	count := map[outcome]int{}
	printed.Go(func() {
		for i, m := range all {
			v := <-outcomes[i]
			count[v.outcome]++
			_, _ = fmt.Fprintf(out, "%-8s  %s  %s\n", v.outcome, m.place(), m.Law)
			if v.why != "" {
				_, _ = fmt.Fprintf(out, "          %s\n", v.why)
			}
		}
	})
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	each(order, func(i int) { outcomes[i] <- all[i].try(ctx, dir, cache, plain) })
	printed.Wait()
	_, _ = fmt.Fprintf(out, "%d mutations: %d killed, %d survived, %d broken\n", len(all), count[killed], count[survived], count[broken])
	if count[killed] != len(all) {
		return errNotHeld
	}
	return nil
}

// commands are the different test commands of the mutations.
func commands(all []mutation) (distinct []string) {
	seen := map[string]bool{}
	for _, m := range all {
		if !seen[m.Test] {
			seen[m.Test] = true
			distinct = append(distinct, m.Test)
		}
	}
	return distinct
}

// each handles every item, in order, a few at a time.
func each[T any](items []T, handle func(T)) {
	queue := make(chan T)
	var workers sync.WaitGroup
	for range parallel {
		workers.Go(func() {
			for item := range queue {
				handle(item)
			}
		})
	}
	for _, item := range items {
		queue <- item
	}
	close(queue)
	workers.Wait()
}
