package worker

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"dispatcher/configs"
	"dispatcher/consumer/deadletter"
	"dispatcher/internal/dedup"
	"dispatcher/internal/node/breaker"
	"dispatcher/internal/rules"
	"dispatcher/sender"
	"dispatcher/throttle"
)

// settings are those of the table: three attempts, a backoff of 1 s that doubles up to 8 s.
func settings(onUnknown string) Policy {
	return Policy{OnUnknown: onUnknown, Attempts: 3, Backoff: time.Second, MaxBackoff: 8 * time.Second}
}

// failures is the history of a job to which so many failures are attributed.
var cancelled = &rules.CancelledError{Rule: rules.Rule{ID: "1", By: "anna"}}

func failures(n int) history { return history{Record: breaker.Record{Failures: n}, calls: n + 1} }

// Each event in the life of a job, and what follows.
func TestDecisions(t *testing.T) {
	t.Parallel()
	const asked = 20 * time.Second
	wrote := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	err := errors.New("status 503")
	result := func(k sender.Kind) sender.Result {
		return sender.Result{Kind: k, Status: 503, Err: err, WroteAt: wrote}
	}
	after := func(r sender.Result, to breaker.Attribution) event {
		return event{hasResult: true, result: r, attribution: to, jitter: 0.5}
	}
	withWait := func(k sender.Kind) sender.Result { r := result(k); r.RetryAfter = asked; return r }
	unwritten := func(k sender.Kind) sender.Result { return sender.Result{Kind: k, Err: err} }
	tooMuch := &throttle.CostError{Limit: "provider", Cost: 7, MaxCost: 6}
	full := func(e event) event { e.sleepersFull = true; return e }
	dead := func(c deadletter.Class, last sender.Result) decision {
		return decision{action: doDeadLetter, claim: claimRecorded, class: c, last: last}
	}
	uncalled := func(c deadletter.Class, last sender.Result) decision {
		return decision{action: doDeadLetter, class: c, last: last}
	}
	exhausted := func(last sender.Result) decision {
		d := dead(deadletter.ClassExhausted, last)
		d.saveAttempts = true
		return d
	}
	// again is a retry in memory that begins when the provider answers again.
	again := func(c deadletter.Class, last sender.Result) decision {
		return decision{action: doRetry, class: c, last: last, wait: time.Second, wakeEarly: true, saveAttempts: true}
	}
	asAsked := func(d decision) decision { d.wait, d.wakeEarly = asked+asked/20, false; return d }
	byTopic := func(d decision) decision { d.retryTopic = true; return d }
	late := func(d decision) decision { d.wakeEarly = false; return d }
	kept := func(d decision) decision { d.claim = claimKept; return d }
	refused := func(a dedup.Answer) event { return event{refusal: a} }

	const park, dlq, repeat = configs.UnknownPark, configs.UnknownDead, configs.UnknownRetry
	unavailableClass, unknownClass := deadletter.ClassUnavailable, deadletter.ClassUnknown
	for name, c := range map[string]struct {
		onUnknown string
		history   history
		event     event
		want      decision
	}{
		// Before a call.
		"its slot was given up":          {repeat, failures(0), event{hasResult: true, givenUp: true, result: sender.Result{Kind: sender.NotSent, Err: throttle.ErrGivenUp}}, decision{action: doRequeue}},
		"nothing against a call":         {repeat, failures(0), event{}, decision{action: doCall}},
		"one attempt left":               {repeat, failures(2), event{}, decision{action: doCall}},
		"expired":                        {repeat, failures(0), event{expired: true}, uncalled(deadletter.ClassExpired, sender.Result{})},
		"expired without attempts":       {repeat, failures(3), event{expired: true}, uncalled(deadletter.ClassExpired, sender.Result{})},
		"timed out":                      {repeat, failures(0), event{timedOut: true}, decision{action: doRelease}},
		"timed out and expired":          {repeat, failures(3), event{timedOut: true, expired: true}, decision{action: doRelease}},
		"counts too much":                {repeat, failures(0), event{refused: tooMuch}, uncalled(deadletter.ClassUnsupported, sender.Result{Err: tooMuch})},
		"cancelled":                      {repeat, failures(0), event{refused: cancelled, timedOut: true}, uncalled(deadletter.ClassCancelled, sender.Result{Err: cancelled})},
		"no room":                        {repeat, failures(0), event{refused: throttle.ErrFull, timedOut: true}, uncalled(deadletter.ClassLimited, sender.Result{Err: throttle.ErrFull})},
		"the breaker is open":            {repeat, failures(0), event{breakerOpen: true}, decision{action: doRequeue}},
		"the breaker is open, last call": {repeat, failures(2), event{breakerOpen: true}, decision{action: doRequeue}},

		// Results that do not depend on the history.
		"accepted":                         {repeat, failures(0), after(result(sender.Accepted), breaker.ToProvider), decision{action: doSettle, claim: claimRecorded, last: result(sender.Accepted)}},
		"accepted after failures":          {dlq, failures(3), full(after(result(sender.Accepted), breaker.Pending)), decision{action: doSettle, claim: claimRecorded, last: result(sender.Accepted)}},
		"rejected":                         {repeat, failures(0), after(result(sender.Rejected), breaker.ToProvider), dead(deadletter.ClassPermanent, result(sender.Rejected))},
		"rejected without a call":          {repeat, failures(0), after(unwritten(sender.Rejected), breaker.ToProvider), uncalled(deadletter.ClassPermanent, unwritten(sender.Rejected))},
		"not sent":                         {repeat, failures(0), after(unwritten(sender.NotSent), breaker.ToProvider), decision{action: doRelease}},
		"not sent, since expired":          {repeat, failures(0), event{hasResult: true, result: unwritten(sender.NotSent), expired: true}, uncalled(deadletter.ClassExpired, sender.Result{})},
		"not sent, after many failures":    {repeat, failures(9), after(unwritten(sender.NotSent), breaker.Pending), decision{action: doRelease}},
		"a kind that does not exist":       {repeat, failures(0), event{hasResult: true}, decision{action: doRelease}},
		"unknown, not to be called again":  {dlq, failures(0), after(result(sender.Unknown), breaker.ToProvider), dead(unknownClass, result(sender.Unknown))},
		"unknown, to be parked":            {park, failures(0), after(result(sender.Unknown), breaker.Pending), dead(unknownClass, result(sender.Unknown))},
		"unknown, parked without attempts": {park, failures(3), after(result(sender.Unknown), breaker.ToJob), dead(unknownClass, result(sender.Unknown))},

		// Retries.
		"throttled":                        {repeat, failures(0), after(result(sender.Throttled), breaker.ToProvider), again("", result(sender.Throttled))},
		"throttled, with a wait":           {repeat, failures(0), after(withWait(sender.Throttled), breaker.ToProvider), asAsked(again("", withWait(sender.Throttled)))},
		"throttled, sleepers full":         {repeat, failures(0), full(after(withWait(sender.Throttled), breaker.ToProvider)), byTopic(asAsked(again("", withWait(sender.Throttled))))},
		"throttled, a failure pending":     {repeat, failures(0), full(after(result(sender.Throttled), breaker.Pending)), again("", result(sender.Throttled))},
		"throttled without attempts":       {repeat, failures(3), after(result(sender.Throttled), breaker.ToProvider), again("", result(sender.Throttled))},
		"unavailable, the provider's":      {repeat, failures(0), after(result(sender.Unavailable), breaker.ToProvider), again(unavailableClass, result(sender.Unavailable))},
		"unavailable, pending":             {repeat, failures(0), after(result(sender.Unavailable), breaker.Pending), again(unavailableClass, result(sender.Unavailable))},
		"unavailable, pending, full":       {repeat, failures(0), full(after(result(sender.Unavailable), breaker.Pending)), again(unavailableClass, result(sender.Unavailable))},
		"unavailable, the provider's full": {repeat, failures(0), full(after(result(sender.Unavailable), breaker.ToProvider)), byTopic(again(unavailableClass, result(sender.Unavailable)))},
		"unavailable, the job's":           {repeat, failures(1), after(result(sender.Unavailable), breaker.ToJob), byTopic(late(again(unavailableClass, result(sender.Unavailable))))},
		"unavailable, with a wait":         {repeat, failures(1), after(withWait(sender.Unavailable), breaker.ToJob), byTopic(asAsked(again(unavailableClass, withWait(sender.Unavailable))))},
		"unavailable, last attempt":        {repeat, failures(3), after(result(sender.Unavailable), breaker.ToJob), exhausted(result(sender.Unavailable))},
		"the provider's, last attempt":     {repeat, failures(3), after(result(sender.Unavailable), breaker.ToProvider), again(unavailableClass, result(sender.Unavailable))},
		"pending, last attempt":            {repeat, failures(3), after(result(sender.Unavailable), breaker.Pending), again(unavailableClass, result(sender.Unavailable))},
		"no connection, last attempt":      {repeat, failures(3), after(unwritten(sender.Unavailable), breaker.ToProvider), again(unavailableClass, unwritten(sender.Unavailable))},
		"unknown, the provider's":          {repeat, failures(0), after(result(sender.Unknown), breaker.ToProvider), kept(again(unknownClass, result(sender.Unknown)))},
		"unknown, the job's":               {repeat, failures(1), after(result(sender.Unknown), breaker.ToJob), kept(byTopic(late(again(unknownClass, result(sender.Unknown)))))},
		"unknown, with a wait":             {repeat, failures(0), after(withWait(sender.Unknown), breaker.ToProvider), kept(again(unknownClass, withWait(sender.Unknown)))},
		"unknown, last attempt":            {repeat, failures(3), after(result(sender.Unknown), breaker.ToJob), exhausted(result(sender.Unknown))},

		// Refusals of the dedup store.
		"sent before":                   {repeat, failures(0), refused(dedup.Answer{Standing: dedup.Sent}), decision{action: doSettle}},
		"sent before, and expired":      {repeat, failures(3), event{expired: true, refusal: dedup.Answer{Standing: dedup.Sent}}, decision{action: doSettle}},
		"sent before, and rejected":     {repeat, failures(0), refused(dedup.Answer{Standing: dedup.Sent, Outcome: 1400}), uncalled(deadletter.ClassPermanent, sender.Result{Status: 400, Err: errCalledBefore})},
		"sent before, exhausted":        {repeat, failures(0), refused(dedup.Answer{Standing: dedup.Sent, Outcome: 2503}), uncalled(deadletter.ClassExhausted, sender.Result{Status: 503, Err: errCalledBefore})},
		"busy for long":                 {repeat, failures(0), refused(dedup.Answer{Standing: dedup.Busy, Wait: time.Minute}), decision{action: doPoll, wait: maxPollWait}},
		"busy for a moment":             {repeat, failures(0), refused(dedup.Answer{Standing: dedup.Busy, Wait: time.Millisecond}), decision{action: doPoll, wait: time.Millisecond}},
		"busy, and expired":             {repeat, failures(0), event{expired: true, refusal: dedup.Answer{Standing: dedup.Busy}}, decision{action: doPoll}},
		"busy, and timed out":           {repeat, failures(0), event{timedOut: true, refusal: dedup.Answer{Standing: dedup.Busy}}, decision{action: doRelease}},
		"its node is gone":              {repeat, failures(0), refused(dedup.Answer{Standing: dedup.Unknown}), decision{action: doCall}},
		"its node is gone, and expired": {repeat, failures(0), event{expired: true, refusal: dedup.Answer{Standing: dedup.Unknown}}, uncalled(deadletter.ClassExpired, sender.Result{})},
		"its node is gone, to park":     {park, failures(0), refused(dedup.Answer{Standing: dedup.Unknown}), uncalled(unknownClass, sender.Result{Err: errNodeGone})},
		"its node is gone, to dlq":      {dlq, failures(0), refused(dedup.Answer{Standing: dedup.Unknown}), uncalled(unknownClass, sender.Result{Err: errNodeGone})},
		"free again":                    {repeat, failures(0), refused(dedup.Answer{Standing: dedup.Granted}), decision{action: doCall}},
	} {
		if got := decide(settings(c.onUnknown), c.history, c.event); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

// Laws of a decision hold whatever the facts are: this tries all of them.
func TestLawsOfADecision(t *testing.T) {
	t.Parallel()
	for _, kind := range append(sender.Kinds(), 0) {
		for n := range 1 << 5 {
			is := func(bit int) bool { return n&(1<<bit) != 0 }
			for _, onUnknown := range []string{configs.UnknownRetry, configs.UnknownPark, configs.UnknownDead} {
				for used := range 5 {
					for _, to := range []breaker.Attribution{breaker.ToProvider, breaker.ToJob, breaker.Pending} {
						r := sender.Result{Kind: kind}
						if is(0) {
							r.RetryAfter = time.Minute
						}
						if is(1) {
							r.WroteAt = time.Now()
						}
						e := event{hasResult: true, result: r, attribution: to, expired: is(2), sleepersFull: is(3), timedOut: is(4)}
						d := decide(settings(onUnknown), failures(used), e)
						if broken := brokenLaw(settings(onUnknown), used, e, d); broken != "" {
							t.Fatalf("%s: %v, on_unknown %s, %d failures: got %+v", broken, e, onUnknown, used, d)
						}
					}
				}
			}
		}
	}
}

// brokenLaw is the law that a decision after a result breaks; empty: none.
func brokenLaw(p Policy, used int, e event, d decision) string {
	r := e.result
	mayBeDone := r.Kind == sender.Accepted || r.Kind == sender.Unknown
	switch {
	case d.action == doCall || d.action == doPoll:
		return "a result is followed by a call without a new slot"
	case d.action == doSettle != (r.Kind == sender.Accepted):
		return "a job is settled if it was accepted, and only then"
	case d.action == doRetry && e.attribution == breaker.ToJob && used >= p.Attempts:
		return "a job is called more often than its attempts allow"
	case d.class == deadletter.ClassExhausted && e.attribution != breaker.ToJob:
		return "an outage exhausts a job"
	case mayBeDone && !r.WroteAt.IsZero() && d.claim == claimReleased:
		return "a job that may be done is free for another delivery"
	case r.Kind == sender.NotSent && d.claim != claimReleased:
		return "a job that was not called stays claimed"
	case d.action == doRetry && r.Kind == sender.Unknown && p.OnUnknown != configs.UnknownRetry:
		return "an unknown call is repeated against on_unknown"
	case d.action == doRetry && r.Kind != sender.Unknown && r.RetryAfter > 0 && d.wait < r.RetryAfter:
		return "a wait that the provider asked for is cut short"
	}
	return ""
}

// A backoff doubles up to its maximum, and is spread from half of it to one and a half. The
// provider's own wait is kept, and up to a tenth longer.
func TestWaits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		waits     int
		asked     time.Duration
		low, high time.Duration
	}{
		{0, 0, 500 * time.Millisecond, 1500 * time.Millisecond},
		{1, 0, time.Second, 3 * time.Second},
		{3, 0, 4 * time.Second, 12 * time.Second},
		{1000, 0, 4 * time.Second, 12 * time.Second},
		{5, 20 * time.Second, 20 * time.Second, 22 * time.Second},
	} {
		p := settings(configs.UnknownRetry)
		if low, high := p.wait(c.waits, c.asked, 0), p.wait(c.waits, c.asked, 1); low != c.low || high != c.high {
			t.Errorf("wait %d, asked for %v: got %v to %v, want %v to %v", c.waits, c.asked, low, high, c.low, c.high)
		}
	}
}

func TestADeadLetterHoldsTheProvidersAnswer(t *testing.T) {
	t.Parallel()
	d := decision{class: deadletter.ClassExhausted, last: sender.Result{Status: 503, Err: fmt.Errorf("status %d", 503)}}
	got := history{calls: 4}.failure(d)
	want := deadletter.Failure{Class: deadletter.ClassExhausted, Code: "503", Message: "status 503", Calls: 4}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A job that failed on another node as often as is allowed is not called: its dead
// letter says so. If it failed here, the dead letter holds that failure.
func TestAJobWithoutAttemptsIsDeadLettered(t *testing.T) {
	t.Parallel()
	elsewhere := decide(settings(configs.UnknownRetry), failures(3), event{})
	if f := failures(3).failure(elsewhere); elsewhere.action != doDeadLetter || f.Class != deadletter.ClassExhausted || f.Message != "it failed 3 times before, and retry.attempts is 3" {
		t.Errorf("got %+v with %+v, want a dead letter that says how often it failed", elsewhere, f)
	}
	h := failures(3)
	h.Last = sender.Result{Kind: sender.Unavailable, Status: 503, Err: errors.New("status 503"), WroteAt: time.Now()}
	want := decision{action: doDeadLetter, claim: claimRecorded, class: deadletter.ClassExhausted, last: h.Last}
	if got := decide(settings(configs.UnknownRetry), h, event{}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
