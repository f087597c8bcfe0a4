package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"dispatcher/internal/boottime"
	"dispatcher/internal/dedup"
	"dispatcher/sender"
)

// delivery stands for a consumer's: a job in flight, to be settled once.
type delivery struct {
	ctx     context.Context //nolint:containedctx // as in consumer
	id      string
	settled chan string
}

func (d *delivery) Done()             { d.settled <- "done" }
func (d *delivery) Dead(class string) { d.settled <- "dead: " + class }
func (d *delivery) Return()           { d.settled <- "returned" }

// attempt is one job on its way, as in internal/node.
type attempt struct {
	d     *delivery
	entry *dedup.Entry
	call  func(sender.Permit) sender.Result
}

// permit is the sender's: the claim is asked for while the slot is still ahead.
func (t *attempt) permit(ctx context.Context) (boottime.Deadline, error) {
	slot := time.Now().Add(5 * time.Millisecond) // from the limiter, with its NotAfter
	notAfter := slot.Add(3 * time.Millisecond)
	useBy := boottime.By(notAfter)
	claimed, err := t.entry.Permit(ctx, slot)
	if err != nil {
		return boottime.Deadline{}, err
	}
	timer := time.NewTimer(time.Until(slot)) // slot.Wait
	defer timer.Stop()
	<-timer.C
	return useBy.And(claimed), nil
}

// The outcome of a done: 0 for an accepted job, else the status of a dead-lettered one.
const accepted dedup.Outcome = 0

// handle handles one job.
func (t *attempt) handle() {
	for {
		r := t.call(t.permit)
		if refused, ok := errors.AsType[*dedup.RefusedError](r.Err); ok {
			if t.settle(refused) {
				return
			}
			continue
		}
		switch r.Kind {
		case sender.Accepted:
			t.entry.Done(t.d.ctx, accepted, func(error) { t.d.Done() }) // the worker is free at once
			return
		case sender.Rejected:
			t.entry.Done(t.d.ctx, dedup.Outcome(r.Status), func(error) { t.d.Dead("permanent") })
			return
		case sender.Unknown: // with retry; else as rejected
			t.entry.Unknown()
		case sender.Throttled, sender.Unavailable:
			t.entry.Release() // it did nothing, and nobody need ask whether it did
		case sender.NotSent:
			t.entry.Release()
			t.d.Return()
			return
		}
	}
}

// settle handles a job that may not be called, by its standing.
func (t *attempt) settle(refused *dedup.RefusedError) bool {
	switch {
	case refused.Standing == dedup.Sent && refused.Outcome == accepted:
		t.d.Done()
	case refused.Standing == dedup.Sent:
		t.d.Dead("permanent") // its dead letter may not have been written
	case refused.Standing == dedup.Unknown:
		t.d.Dead("unknown")
	default: // busy
		timer := time.NewTimer(refused.Wait)
		defer timer.Stop()
		<-timer.C // or the context's end
		return false
	}
	return true
}

// How a node uses the store: it claims a job in the permit, and records each result. A
// job that was sent is settled without a call.
func Example() {
	server := miniredis.NewMiniRedis()
	_ = server.Start()
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = rdb.Close() }()
	store, err := dedup.New(dedup.Options{Redis: rdb, Namespace: "ns", CallTimeout: 100 * time.Millisecond, Config: dedup.Config{Margin: 100 * time.Millisecond}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- store.Run(ctx) }()

	calls := 0
	call := func(permit sender.Permit) sender.Result {
		if _, err := permit(ctx); err != nil {
			return sender.Result{Kind: sender.NotSent, Err: fmt.Errorf("permit: %w", err)}
		}
		calls++
		return sender.Result{Kind: sender.Accepted, Status: 200}
	}
	deliver := func(id string) string {
		d := &delivery{ctx: ctx, id: id, settled: make(chan string, 1)}
		t := &attempt{d: d, entry: store.Open(id), call: call}
		t.handle()
		return <-d.settled
	}
	fmt.Println("first:", deliver("job-1"), "calls:", calls)
	fmt.Println("again:", deliver("job-1"), "calls:", calls)

	// Another node claims a job and dies.
	_, _ = store.Open("job-2").Claim(ctx, time.Time{})
	fmt.Println("of a node that is gone:", deliver("job-2"), "calls:", calls)

	stop()
	fmt.Println(<-ended)
	// Output:
	// first: done calls: 1
	// again: done calls: 1
	// of a node that is gone: dead: unknown calls: 1
	// <nil>
}
