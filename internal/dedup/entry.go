package dedup

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"
)

// Verdict is what the dedup store says of a job. The set is closed.
type Verdict int

// The verdicts.
const (
	// Granted: the job is claimed, and may be called until [Answer.UseBy]. To
	// [Store.Look] it means that the job is free.
	Granted Verdict = iota + 1
	// Sent: somebody was answered. [Answer.Outcome] is what they noted.
	Sent
	// Busy: somebody else may be calling. Ask again after [Answer.Wait].
	Busy
	// Unknown: it was claimed, its call must be over, and nobody said what
	// became of it.
	Unknown
)

// String returns the verdict in lower case, as in the label of a metric.
func (v Verdict) String() string {
	switch v {
	case Granted:
		return "granted"
	case Sent:
		return "sent"
	case Busy:
		return "busy"
	case Unknown:
		return "unknown"
	}
	return "verdict " + strconv.Itoa(int(v))
}

// Outcome is what became of a job, in the caller's own numbers: 0 to
// [MaxOutcome]. It takes one to three bytes in Redis.
type Outcome int

// MaxOutcome is the largest outcome that is kept.
const MaxOutcome Outcome = 32767

// Answer is what the dedup store says of a job.
type Answer struct {
	Verdict Verdict
	Outcome Outcome       // of Sent
	Wait    time.Duration // of Busy: until the other call must be over
	UseBy   time.Time     // of Granted: the first byte must be written before
	Taken   bool          // of Granted: it was Unknown and is taken over
}

// Errors of a dedup store.
var (
	// ErrClosed says that the dedup store's Run has ended.
	ErrClosed = errors.New("dedup: closed")
	// ErrUnwritten says that Redis had not acknowledged a done when the job's
	// context had ended and it was asked once more.
	ErrUnwritten = errors.New("dedup: redis has not acknowledged it")
)

// Entry is one delivery of a job in the dedup store. It belongs to one goroutine at
// a time. Two deliveries of one job are two entries, on one node as well, and
// only one of them is granted the job.
type Entry struct {
	store  *Store
	job    digest
	who    string
	number int64     // of the last claim
	useBy  time.Time // zero: no claim is granted
	kept   bool      // a call of this job is unknown: its claim must stay
}

// Open makes an entry for a delivery of the job with this id. It asks nothing.
func (l *Store) Open(id string) *Entry {
	return &Entry{store: l, job: digestOf(id), who: l.name + "." + strconv.FormatUint(l.opened.Add(1), 36)}
}

// Claim asks for the job, for one call that is to begin at by; zero means now.
// It waits while Redis is away, and returns ctx's cause or [ErrClosed] when that
// ends first: then the claim is released. While a claim can still be used for
// half the margin, it returns at once.
func (e *Entry) Claim(ctx context.Context, by time.Time) (Answer, error) {
	margin := e.store.margin
	if now := time.Now(); e.useBy.Sub(now) > margin/2 && e.useBy.After(by) {
		return Answer{Verdict: Granted, UseBy: e.useBy}, nil
	}
	e.number++
	e.useBy = time.Time{}
	o := &op{ask: ask{verb: verbClaim, job: e.job, who: e.who, number: e.number}, by: by}
	r, err := e.store.ask(ctx, o)
	if err != nil {
		e.release()
		return Answer{}, err
	}
	a := r.answer()
	if a.Verdict == Granted {
		a.UseBy = r.askedAt.Add(margin)
		e.useBy = a.UseBy
		e.kept = e.kept || a.Taken
	}
	return a, nil
}

// RefusedError is why a permit was not given: any verdict but Granted.
type RefusedError struct{ Answer }

func (r *RefusedError) Error() string {
	if r.Verdict == Busy {
		return fmt.Sprintf("dedup store: busy: another delivery may be calling for %v yet", r.Wait)
	}
	return "dedup store: " + r.Verdict.String()
}

// Permit is [Entry.Claim] in the shape of a sender's permit: it says by when the
// call must be written, or returns a [RefusedError] or what Claim returns.
func (e *Entry) Permit(ctx context.Context, by time.Time) (useBy time.Time, err error) {
	a, err := e.Claim(ctx, by)
	if err != nil {
		return time.Time{}, err
	}
	if a.Verdict != Granted {
		return time.Time{}, &RefusedError{a}
	}
	return a.UseBy, nil
}

// Done notes that the job was answered. It returns at once; then is called when
// Redis has acknowledged it, with nil, and only then may the job's offset be
// marked. Until ctx ends it is tried for as long as it takes, and then once
// more; then gets [ErrUnwritten] or [ErrClosed] if that fails. It is called
// exactly once, from the dedup store's goroutine or this one, and must not block.
func (e *Entry) Done(ctx context.Context, outcome Outcome, then func(error)) {
	if outcome < 0 || outcome > MaxOutcome {
		then(fmt.Errorf("dedup: outcome: %d: must be 0 to %d", outcome, MaxOutcome))
		return
	}
	e.useBy = time.Time{}
	o := &op{ask: ask{verb: verbDone, job: e.job, who: e.who, number: int64(outcome)}}
	var ended atomic.Bool
	o.ended = ended.Load
	stop := context.AfterFunc(ctx, func() {
		ended.Store(true)
		e.store.hurry()
	})
	o.then = func(_ reply, err error) {
		stop()
		if err != nil {
			e.store.metrics.unwritten.Inc()
		}
		then(err)
	}
	e.store.push(o)
}

// Release gives the claim up: its call was not written, or the provider said
// that it did nothing. It returns at once, and may be called without a claim.
// After [Entry.Unknown], and where the job was taken over, the claim stays.
func (e *Entry) Release() {
	if e.useBy.IsZero() {
		return
	}
	e.release()
}

func (e *Entry) release() {
	e.useBy = time.Time{}
	if !e.kept {
		e.store.push(&op{ask: ask{verb: verbRelease, job: e.job, who: e.who, number: e.number}})
	}
}

// Unknown notes that a call was written and no answer came. The claim stands
// until the job is claimed again by this entry, or it is done.
func (e *Entry) Unknown() {
	e.useBy, e.kept = time.Time{}, true
}

// Look says how a job stands, without claiming it.
func (l *Store) Look(ctx context.Context, id string) (Answer, error) {
	o := &op{ask: ask{verb: verbLook, job: digestOf(id), who: l.name}, by: time.Now().Add(lookWait)}
	r, err := l.ask(ctx, o)
	if err != nil {
		return Answer{}, err
	}
	return r.answer(), nil
}

func (r reply) answer() Answer {
	switch r.verdict {
	case toldSent:
		return Answer{Verdict: Sent, Outcome: Outcome(r.value)}
	case toldBusy:
		return Answer{Verdict: Busy, Wait: time.Duration(r.value) * time.Microsecond}
	case toldUnknown:
		return Answer{Verdict: Unknown}
	}
	return Answer{Verdict: Granted, Taken: r.verdict == toldTaken}
}
