package dedup

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"dispatcher/internal/boottime"
)

// Standing is how a job stands in the dedup store. The set is closed.
type Standing int

// The standings.
const (
	// Granted: the job is claimed, and may be called until [Answer.UseBy]. From
	// [Store.Peek] it means that the job is free.
	Granted Standing = iota + 1
	// Sent: a call was answered. [Answer.Outcome] is what its caller recorded.
	Sent
	// Busy: another delivery may be calling. Ask again after [Answer.Wait].
	Busy
	// Unknown: the job was claimed, its call must be over, and no outcome was recorded.
	Unknown
)

// String returns the standing in lower case, as in the label of a metric.
func (v Standing) String() string {
	return [...]string{"none", Granted: "granted", Sent: "sent", Busy: "busy", Unknown: "unknown"}[v]
}

// Outcome is the outcome of a job, in the caller's own numbers: 0 to [MaxOutcome]. It takes one to three bytes in Redis.
type Outcome int

// MaxOutcome is the largest outcome that is kept.
const MaxOutcome Outcome = 32767

// Answer is the dedup store's answer about a job.
type Answer struct {
	Standing Standing
	Outcome  Outcome           // of Sent
	Wait     time.Duration     // of Busy: until the other call must be over
	UseBy    boottime.Deadline // of Granted: the first byte must be written before
	Taken    bool              // of Granted: the job was Unknown and is taken over
}

// Errors of a dedup store.
var (
	// ErrClosed: the store's Run has ended.
	ErrClosed = errors.New("dedup: closed")
	// ErrUnacknowledged: Redis has not acknowledged a done, also not at the last
	// attempt after the end of the job's context.
	ErrUnacknowledged = errors.New("dedup: redis has not acknowledged it")
)

// Entry is one delivery of a job in the dedup store. It belongs to one goroutine at
// a time. Two deliveries of one job are two entries, also on one node, and only one of
// them is granted the job.
type Entry struct {
	store     *Store
	job       digest
	owner     string
	number    int64             // of the last claim
	useBy     boottime.Deadline // zero: no claim is granted
	keepClaim bool              // a call of this job is unknown, so its claim must stay
}

// Open makes an entry for a delivery of the job with this id. It does not call Redis.
func (s *Store) Open(id string) *Entry {
	return &Entry{store: s, job: digestOf(id), owner: s.name + "." + strconv.FormatUint(s.opened.Add(1), 36)}
}

// Claim claims the job for one call that is to begin at by; zero means now. It waits
// while Redis is away. It returns ctx's cause or [ErrClosed] if that comes first, and
// releases the claim then. While an earlier claim can still be used for half the
// margin, Claim returns it at once; it can't after the host was suspended, since another node may have taken the job over.
func (e *Entry) Claim(ctx context.Context, by time.Time) (Answer, error) {
	margin := e.store.margin
	if now := time.Now(); e.useBy.At.Sub(now) > margin/2 && e.useBy.At.After(by) && !e.useBy.Over(now, e.store.suspended) {
		return Answer{Standing: Granted, UseBy: e.useBy}, nil
	}
	e.number++
	e.useBy = boottime.Deadline{}
	p := &pending{request: request{verb: verbClaim, job: e.job, owner: e.owner, number: e.number}, neededBy: by}
	r, err := e.store.await(ctx, p)
	if err != nil {
		e.release()
		return Answer{}, err
	}
	a := r.answer()
	if a.Standing == Granted {
		a.UseBy = boottime.Deadline{At: r.askedAt.Add(margin), Suspended: r.suspended}
		e.useBy = a.UseBy
		e.keepClaim = e.keepClaim || a.Taken
	}
	return a, nil
}

// RefusedError is why a permit was not given: any standing but Granted.
type RefusedError struct{ Answer }

func (r *RefusedError) Error() string {
	if r.Standing == Busy {
		return fmt.Sprintf("dedup store: busy: another delivery may be calling for another %v", r.Wait)
	}
	return "dedup store: " + r.Standing.String()
}

// Permit is [Entry.Claim] in the form of a sender's permit: it returns the time by
// which the call must be written, a [RefusedError], or the error of Claim.
func (e *Entry) Permit(ctx context.Context, by time.Time) (useBy boottime.Deadline, err error) {
	a, err := e.Claim(ctx, by)
	if err != nil {
		return boottime.Deadline{}, err
	}
	if a.Standing != Granted {
		return boottime.Deadline{}, &RefusedError{a}
	}
	return a.UseBy, nil
}

// Done records that the job was answered, and returns at once. It calls then with nil
// when Redis has acknowledged the record: from then on no delivery calls the job again.
// It repeats attempts until ctx ends, and makes one more after that. If that fails,
// then gets [ErrUnacknowledged] or [ErrClosed]. It is called exactly once, from Run's
// goroutine or this one, and must not block.
func (e *Entry) Done(ctx context.Context, outcome Outcome, then func(error)) {
	if outcome < 0 || outcome > MaxOutcome {
		then(fmt.Errorf("dedup: outcome: %d: must be from 0 to %d", outcome, MaxOutcome))
		return
	}
	e.useBy = boottime.Deadline{}
	p := &pending{request: request{verb: verbDone, job: e.job, owner: e.owner, number: int64(outcome)}}
	var ended atomic.Bool
	p.ended = ended.Load
	stop := context.AfterFunc(ctx, func() {
		ended.Store(true)
		e.store.hurry()
	})
	p.then = func(_ reply, err error) {
		stop()
		if err != nil {
			e.store.metrics.unwritten.Inc()
		}
		then(err)
	}
	e.store.push(p)
}

// Release gives the claim up, because the call was not written or the provider did
// nothing. It returns at once, and may be called without a claim. After
// [Entry.Unknown], or if the job was taken over, the claim stays.
func (e *Entry) Release() {
	if e.useBy.At.IsZero() {
		return
	}
	e.release()
}

func (e *Entry) release() {
	e.useBy = boottime.Deadline{}
	if !e.keepClaim {
		e.store.push(&pending{request: request{verb: verbRelease, job: e.job, owner: e.owner, number: e.number}})
	}
}

// Unknown notes that a call was written and no answer came. The claim stands until
// this entry claims the job again, or it is done.
func (e *Entry) Unknown() {
	e.useBy, e.keepClaim = boottime.Deadline{}, true
}

// Peek returns how a job stands, without claiming it.
func (s *Store) Peek(ctx context.Context, id string) (Answer, error) {
	p := &pending{request: request{verb: verbPeek, job: digestOf(id), owner: s.name}, neededBy: time.Now().Add(peekWait)}
	r, err := s.await(ctx, p)
	if err != nil {
		return Answer{}, err
	}
	return r.answer(), nil
}

// answer is the result in the callers' terms.
func (r result) answer() Answer {
	switch r.code {
	case codeSent:
		return Answer{Standing: Sent, Outcome: Outcome(r.value)}
	case codeBusy:
		return Answer{Standing: Busy, Wait: time.Duration(r.value) * time.Microsecond}
	case codeUnknown:
		return Answer{Standing: Unknown}
	}
	return Answer{Standing: Granted, Taken: r.code == codeTaken}
}
