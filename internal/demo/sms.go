package demo

import (
	"context"
	"fmt"
	"time"

	"dispatcher/internal/embedded"
	"dispatcher/internal/provider"
	"dispatcher/internal/wait"
	"dispatcher/job"
)

// The SMS scenario. An id is "sender-recipient-number*segments": the judge counts by its parts.
const (
	codes      = "codes" // topic of the one-time passwords
	senders    = 5
	recipients = 400
	busy       = 12 // messages to one recipient: they take as many windows
	segments   = 3  // of a text, at most
	bulkShare  = 0.1

	codesEvery = 40 * time.Millisecond
	codesFor   = 10 * time.Second

	refusesFrom = 4 * time.Second // from the first call on the provider refuses calls
	refusesFor  = 5 * time.Second
)

// usual is how the provider answers.
func usual() provider.Behaviour {
	return provider.Behaviour{Latency: 20 * time.Millisecond, Jitter: 20 * time.Millisecond}
}

// senderCap is what each sender's number may send, in segments a window.
func (o Options) senderCap() int64 { return o.Cap / 4 }

// usualRate is how many units came in a second before the provider refuses calls: less than the cap where the machine is slow.
func (r *running) usualRate() int {
	return int(float64(r.parts.Provider.Recent(refusesFrom)) / refusesFrom.Seconds())
}

// leastSMS is the least cap that leaves each sender room for a text of three segments.
const leastSMS = 40

func fileOfSMS(o Options) string {
	return fmt.Sprintf(`
limits:
  - {name: account, cap: %[1]d, window: %[2]s, max_cost: %[3]d}
  - {name: sender, key: 'job.headers["from"]', cap: %[4]d, window: %[2]s, max_cost: %[3]d}
  - {name: recipient, key: job.json.to, cap: 1, window: %[2]s, cost: "1"}
kafka:
  lanes:
    - {name: codes, topics: [%[5]s]}
    - {name: bulk, topics: [%[6]s], min_share: %[7]g}
`, o.Cap, o.Window, segments, o.senderCap(), codes, embedded.Topic, bulkShare)
}

func judgedOfSMS(o Options) []judged {
	caps := func(most int64) []provider.CapFrom { return []provider.CapFrom{{Cap: int(most)}} }
	return []judged{
		{"sender", provider.Contract{Window: o.Window, Caps: caps(o.senderCap()), Part: 1}},
		{"recipient", provider.Contract{Window: o.Window, Caps: caps(1), Part: 2, Calls: true}},
	}
}

// text is the n-th message from a sender, of so many segments. to names its recipient.
func text(n, sender int, to string, cost int) job.Record {
	return job.Record{
		Value: fmt.Appendf(nil, `{"to":%q,"text":"hello"}`, to),
		Headers: []job.Header{
			{Key: "from", Value: fmt.Append(nil, "s", sender)},
			{Key: "cost", Value: fmt.Append(nil, cost)},
			{Key: "idempotency-key", Value: fmt.Appendf(nil, "s%d-%s-%d*%d", sender, to, n, cost)},
		},
	}
}

// fillSMS writes the bulk jobs. One recipient gets more messages than the others.
func fillSMS(ctx context.Context, w *writer, o Options) error {
	return w.write(ctx, embedded.Topic, o.Jobs, func(n int) job.Record {
		to := fmt.Sprint("r", 1+n%recipients)
		if every := max(1, o.Jobs/busy); n%every == 0 && n/every < busy {
			to = "r0"
		}
		return text(n, n%senders, to, 1+n%segments)
	})
}

// duringSMS writes one-time passwords, and has the provider refuse calls for a while.
func duringSMS(ctx context.Context, r *running) error {
	if err := r.awaitCalls(ctx); err != nil {
		return err
	}
	defer r.parts.Provider.Behave(usual())
	for at := time.Duration(0); at < codesFor; at += codesEvery {
		if at == refusesFrom {
			refusing := usual()
			refusing.Status, refusing.RetryAfter, refusing.Accepts = 429, time.Second, max(1, r.usualRate()/3)
			r.parts.Provider.Behave(refusing)
		}
		if at == refusesFrom+refusesFor {
			r.parts.Provider.Behave(usual())
		}
		n := len(r.written)
		code := text(n, senders, fmt.Sprint("c", n), 1) // from a number of their own, each to another recipient
		r.written = append(r.written, r.parts.Provider.Since(time.Now()))
		if err := r.writer.WriteBatch(ctx, codes, []job.Record{code}); err != nil {
			return fmt.Errorf("write jobs: %w", err)
		}
		if !wait.For(ctx, codesEvery) {
			return context.Cause(ctx)
		}
	}
	return nil
}
