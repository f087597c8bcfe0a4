package redrive

import (
	"context"

	"dispatcher/consumer/dlq"
)

// Runner settles the letters of a request until all are settled or ctx ends. It says meanwhile how far it is, from its own
// goroutine. Beside an error it returns how far it came.
type Runner func(ctx context.Context, r Request, now func(Progress)) (Progress, error)

// Kafka settles letters by package dlq.
func Kafka(o dlq.Options) Runner {
	return func(ctx context.Context, r Request, now func(Progress)) (Progress, error) {
		var p Progress
		o := o
		o.Progress = func(read, all int64) {
			p.Read, p.ToRead = read, all
			now(p)
		}
		o.Settled = func(t dlq.Tally) {
			p.count(&t)
			now(p)
		}
		client, err := dlq.New(o)
		if err != nil {
			return p, err
		}
		var tally dlq.Tally
		if r.Kind == Drop {
			tally, err = client.Drop(ctx, r.filter(), false)
		} else {
			tally, err = client.Replay(ctx, r.filter(), dlq.ReplayOptions{Rate: r.Rate})
		}
		p.count(&tally)
		return p, err
	}
}
