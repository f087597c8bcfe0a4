package node

import (
	"log/slog"
	"time"

	"dispatcher/consumer"
	"dispatcher/internal/dedup"
	"dispatcher/internal/node/breaker"
	"dispatcher/internal/node/report"
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

// handle takes one job, for which a slot was reserved, from its calls to its
// settlement or to its next wait.
func (p *workerPool) handle(item workItem) {
	a := p.newAttempt(item)
	defer a.end()
	for e := a.beforeCall(); ; {
		d := decide(p.policy, a.history, e)
		switch d.action {
		case doCall:
			e = a.call()
		case doPoll:
			e = a.pollDedup(d.wait)
		case doSettle, doDeadLetter, doRelease, doRequeue, doRetry:
			a.carryOut(d)
			return
		}
	}
}

// carryOut carries out a decision that ends the attempt.
func (a *attempt) carryOut(d decision) {
	a.freePlace()
	a.giveBackSlot()
	if d.saveAttempts {
		a.d.SetAttempts(a.attempts())
	}
	outcome := a.outcome(d.last)
	if d.action == doSettle {
		a.endClaim(d, func() { a.d.Done(outcome) }) // no worker waits for it
		return
	}
	ended := make(chan struct{})
	a.endClaim(d, func() { close(ended) })
	<-ended
	switch d.action {
	case doDeadLetter:
		a.d.Dead(a.failure(d), outcome)
	case doRelease:
		a.d.Release()
	case doRequeue:
		a.d.Requeue()
	case doRetry:
		a.retry(d)
	case doCall, doPoll, doSettle: // carried out by handle, or above
	}
}

// retry sends the job to a retry topic, or has it sleep in the consumer. Neither
// keeps a worker.
func (a *attempt) retry(d decision) {
	a.waits++
	until := time.Now().Add(d.wait)
	if d.retryTopic {
		f := a.failure(d)
		f.Failures = a.Failures
		if a.d.RetryLater(until, f) {
			return
		}
	}
	a.d.Sleep(consumer.SleepOptions{Until: until, WakeEarly: d.wakeEarly, Failed: true, Attempts: a.attempts(), Memo: new(a.memo)})
}

func (p *workerPool) newAttempt(item workItem) *attempt {
	a := &attempt{workerPool: p, workItem: item}
	if a.conn.IsZero() {
		a.freePlace() // to dial takes no place
	}
	if !a.full {
		a.d.Step("has a slot", slog.Time("at", a.slot.NotBefore))
	}
	if m, ok := a.d.Memo().(*memo); ok {
		a.memo = *m
		a.breaker.Resolve(&a.Job)
		return a
	}
	before := a.d.Attempts()
	a.history = history{calls: before.Calls, waits: before.Failures, Job: breaker.Job{
		Failures: before.Failures, Since: time.Now(), Failed: before.Failures > 0 && a.d.FromRetryTopic(),
	}}
	if p.dedup != nil {
		a.entryID = entryID(a.d)
		a.entry = p.dedup.Open(a.entryID)
	}
	return a
}
