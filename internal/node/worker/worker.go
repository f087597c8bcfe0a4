package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dispatcher/consumer"
	"dispatcher/internal/dedup"
	"dispatcher/internal/node/breaker"
	"dispatcher/internal/node/pacer"
	"dispatcher/internal/node/report"
	"dispatcher/internal/tracing"
	"dispatcher/job"
	"dispatcher/sender"
	"dispatcher/throttle"
)

// Caller makes one call: a sender.
type Caller interface {
	SendOn(ctx context.Context, on *sender.Conn, j job.Job, permit sender.Permit) sender.Result
}

// Options of a [Handler].
type Options struct {
	Sender   Caller
	Limiter  *throttle.Limiter
	Breaker  *breaker.Breaker
	Provider *report.Provider
	Places   pacer.Places
	Policy   Policy

	ThrottledAs map[string]int // the gate that a throttled answer is about, by what it says

	Dedup *dedup.Store  // nil: there is none
	Drain time.Duration // how long a job in flight is awaited when its context has ended

	SleepersFull func() bool // as many jobs sleep in the consumer as may

	Tracer     *tracing.Tracer       // nil: tracing is off
	Registerer prometheus.Registerer // nil: no metrics
}

// Handler is what the workers of a node share. Make it with [New].
type Handler struct {
	o       Options
	metrics *metrics
}

// New makes what the workers share, and registers its metrics.
func New(o Options) *Handler { return &Handler{o: o, metrics: newMetrics(o.Registerer)} }

// Work handles work items until the pacer ends.
func (h *Handler) Work(items <-chan pacer.Item) {
	for item := range items {
		h.handle(item)
	}
}

// handle takes one job from the pacer through one call at most, until it is settled or waits
// again.
func (h *Handler) handle(item pacer.Item) {
	v := h.newVisit(item)
	defer v.end()
	for e := v.objections(); ; {
		d := decide(h.o.Policy, v.history, e)
		switch d.action {
		case doCall:
			e = v.call()
		case doPoll:
			e = v.pollDedup(d.wait)
		case doSettle, doDeadLetter, doRelease, doRequeue, doRetry:
			v.carryOut(d)
			return
		}
	}
}

// carryOut carries out a decision that ends the visit.
func (v *visit) carryOut(d decision) {
	v.freePlace()
	if d.saveAttempts {
		v.Delivery.SetAttempts(v.attempts())
	}
	v.traceUncalled(d)
	outcome := v.outcome(d.last)
	if d.action == doSettle {
		v.endClaim(d, func() { v.Delivery.Done(outcome) }) // no worker waits for it
		return
	}
	ended := make(chan struct{})
	v.endClaim(d, func() { close(ended) })
	<-ended
	switch d.action {
	case doDeadLetter:
		v.Delivery.Dead(v.failure(d), outcome)
	case doRelease:
		v.Delivery.Release()
	case doRequeue:
		v.Delivery.Requeue()
	case doRetry:
		v.retry(d)
	case doCall, doPoll, doSettle: // carried out by handle, or above
	}
}

// retry sends the job to a retry topic, or has it sleep in the consumer. The worker waits
// until Kafka has the record of the retry topic. A job that sleeps keeps no worker.
func (v *visit) retry(d decision) {
	v.waits++
	until := time.Now().Add(d.wait)
	if d.retryTopic {
		f := v.failure(d)
		f.Failures = v.Failures
		if v.Delivery.RetryLater(until, f) {
			return
		}
	}
	v.Delivery.Sleep(consumer.SleepOptions{Until: until, WakeEarly: d.wakeEarly, Failed: true, Attempts: v.attempts(), Memo: new(v.memo)})
}

func (h *Handler) newVisit(item pacer.Item) *visit {
	v := &visit{Handler: h, Item: item}
	if v.Conn.IsZero() {
		v.freePlace() // to dial takes no place
	}
	if !v.Slot.IsZero() {
		v.Delivery.Step("has a slot", slog.Time("at", v.Slot.NotBefore))
	}
	if m, ok := v.Delivery.Memo().(*memo); ok {
		v.memo = *m
		v.o.Breaker.Resolve(&v.Record)
		return v
	}
	before := v.Delivery.Attempts()
	v.history = history{calls: before.Calls, waits: before.Failures, Record: breaker.Record{
		Failures: before.Failures, Since: time.Now(), Failed: before.Failures > 0 && v.Delivery.FromRetryTopic(),
	}}
	if h.o.Dedup != nil {
		v.entryID = entryID(v.Delivery)
		v.entry = h.o.Dedup.Open(v.entryID)
	}
	return v
}
