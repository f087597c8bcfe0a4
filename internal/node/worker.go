package node

import (
	"log/slog"
	"time"

	"dispatcher/consumer"
	"dispatcher/internal/dedup"
	"dispatcher/internal/node/breaker"
	"dispatcher/internal/node/report"
	"dispatcher/internal/tracing"
	"dispatcher/throttle"
)

// workerPool is what the workers share.
type workerPool struct {
	sender   caller
	limiter  *throttle.Limiter
	breaker  *breaker.Breaker
	provider *report.Provider
	policy   policy
	metrics  *metrics
	places   <-chan struct{} // of the pacer

	throttledAs map[string]int // the gate that a throttled answer is about, by what it says

	tracer *tracing.Tracer // nil: tracing is off

	dedup *dedup.Store  // nil: there is none
	grace time.Duration // how long a record to the dedup store may go on when its job's context has ended

	sleepersFull func() bool
}

// work handles work items until the pacer ends.
func (p *workerPool) work(items <-chan workItem) {
	for item := range items {
		p.handle(item)
	}
}

// handle takes one job from the pacer through its calls, until it is settled or waits
// again.
func (p *workerPool) handle(item workItem) {
	v := p.newVisit(item)
	defer v.end()
	for e := v.objections(); ; {
		d := decide(p.policy, v.history, e)
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
		v.d.SetAttempts(v.attempts())
	}
	v.traceUncalled(d)
	outcome := v.outcome(d.last)
	if d.action == doSettle {
		v.endClaim(d, func() { v.d.Done(outcome) }) // no worker waits for it
		return
	}
	ended := make(chan struct{})
	v.endClaim(d, func() { close(ended) })
	<-ended
	switch d.action {
	case doDeadLetter:
		v.d.Dead(v.failure(d), outcome)
	case doRelease:
		v.d.Release()
	case doRequeue:
		v.d.Requeue()
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
		if v.d.RetryLater(until, f) {
			return
		}
	}
	v.d.Sleep(consumer.SleepOptions{Until: until, WakeEarly: d.wakeEarly, Failed: true, Attempts: v.attempts(), Memo: new(v.memo)})
}

func (p *workerPool) newVisit(item workItem) *visit {
	v := &visit{workerPool: p, workItem: item}
	if v.conn.IsZero() {
		v.freePlace() // to dial takes no place
	}
	if !v.slot.IsZero() {
		v.d.Step("has a slot", slog.Time("at", v.slot.NotBefore))
	}
	if m, ok := v.d.Memo().(*memo); ok {
		v.memo = *m
		v.breaker.Resolve(&v.Record)
		return v
	}
	before := v.d.Attempts()
	v.history = history{calls: before.Calls, waits: before.Failures, Record: breaker.Record{
		Failures: before.Failures, Since: time.Now(), Failed: before.Failures > 0 && v.d.FromRetryTopic(),
	}}
	if p.dedup != nil {
		v.entryID = entryID(v.d)
		v.entry = p.dedup.Open(v.entryID)
	}
	return v
}
