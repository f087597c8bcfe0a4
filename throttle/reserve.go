package throttle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/internal/inquiry"
	"dispatcher/throttle/limit"
)

// Answer is what a job got: a slot, or why it never gets one, or until when a gate does not
// let it pass, or nothing of these. Nothing means that the limit has no unit now. The error
// is [ErrFull] or a [*CostError].
type Answer struct {
	Slot  Slot
	Err   error
	Until time.Time // when the job is to be asked for again
	Gate  int       // that does not let it pass until then: index of [Options].Gates
}

// ErrFull says that the bucket had no room, and that jobs are not to wait.
var ErrFull = errors.New("the bucket is full")

// CostError says that a job counts more units than any job may.
type CostError struct {
	Limit         string
	Cost, MaxCost int64
}

func (e *CostError) Error() string {
	return fmt.Sprintf("cost: %d: must be at most %d, the max_cost of the limit %s; raise that if such jobs are right", e.Cost, e.MaxCost, e.Limit)
}

// Room says for which jobs one reservation is to ask.
type Room struct {
	Lane   int   // of the jobs
	Units  int64 // these count so many, at most; the last one may count more
	Jobs   int   // there are so many, at most
	Choice bool  // some are not to get a slot now: they are there to choose from
}

// has reports whether one more job may be asked for, behind jobs that count so much.
func (r Room) has(jobs int, units int64) bool { return jobs < r.Jobs && units < r.Units }

// Turn waits until a reservation is worth a call to Redis, and returns for which jobs one may
// ask, one at least. They are of one of these lanes, in which the caller has jobs. The caller
// collects its jobs only then, so that the best of that moment are asked for. The error is the context's
// cause. A notice of more ends the wait with [ErrMore]; more is nil where jobs have no lanes.
func (l *Limiter) Turn(ctx context.Context, lanes Lanes, more <-chan struct{}) (Room, error) {
	return inquiry.Ask(ctx, l.turns, lanes, more)
}

// Reserve asks for a slot for each job, the most urgent first. All are of the lane that
// [Limiter.Turn] named. The answers are in the same
// order. Slots rise, but for those of jobs that a gate lets pass later than others; each may
// lie up to one horizon ahead. A job that [Limiter.Turn] gave no room for gets no
// answer. A reservation that fails grants nothing: [Limiter.Turn] waits until Redis is to be asked
// again, and [Limiter.State] says why. The error is the context's cause.
//
// What became of each slot is to be said once, by [Limiter.Used] when the call is over, by
// [Limiter.Missed] or by [Limiter.Unused]: until then it counts as a call in flight.
func (l *Limiter) Reserve(ctx context.Context, jobs []Request) ([]Answer, error) {
	return inquiry.Ask(ctx, l.batches, jobs, nil)
}

// Again waits for another slot, for a job that missed its own. It is in the next
// reservation, before all others, and a full bucket does not refuse it: it was let in once.
// The error is the context's cause, or [ErrGivenUp] where nothing is granted for long, or a
// gate does not let the job pass.
func (l *Limiter) Again(ctx context.Context, job Request) (Slot, error) {
	s, err := inquiry.Ask(ctx, l.retries, job, nil)
	if err == nil && s.IsZero() {
		err = ErrGivenUp
	}
	return s, err
}

// request is a job in one call.
type request struct {
	Request
	again  bool // it missed a slot before
	answer *Answer
}

func costsOf(asked []request) []int64 {
	costs := make([]int64, len(asked))
	for i, q := range asked {
		costs[i] = q.Cost
	}
	return costs
}

// unitsOf is what all of them count together.
func unitsOf(asked []request) (units int64) {
	for _, q := range asked {
		units += q.Cost
	}
	return units
}

// serve asks for those that ask again, and behind them for these jobs of a lane. It returns the answers
// of the jobs.
func (r *reserver) serve(ctx context.Context, number int, jobs []Request) []Answer {
	r.again = slices.DeleteFunc(r.again, func(w inquiry.Inquiry[Request, Slot]) bool { return w.Over() })
	now := time.Now()
	again, answers := make([]Answer, len(r.again)), make([]Answer, len(jobs))
	onLease := r.onLease(now)
	if !onLease && !r.grants(now) {
		return answers
	}
	if !onLease && r.tooLarge(jobs) && now.Sub(r.calledAt) > limit.PollEvery {
		r.call(ctx, r.placed(), nil) // the bound may have been raised
	}
	asked := r.collect(again, jobs, answers, r.room(number, now))
	if onLease {
		r.useLease(number, asked, now)
	} else if len(asked) > 0 {
		r.call(ctx, number, asked)
	}
	last := &r.lane(number).last
	for _, q := range asked {
		if !q.answer.Slot.IsZero() {
			r.busy.Add(1)
			*last = clock.Later(*last, q.answer.Slot.NotBefore)
		}
	}
	r.answerAgain(again)
	return answers
}

// laneOf is the lane of the jobs of a call.
func (r *reserver) laneOf(jobs []Request) int {
	if len(jobs) == 0 {
		return 0
	}
	return min(len(r.lanes)-1, jobs[0].Lane)
}

// tooLarge reports whether a job counts more than any may, as far as this node knows.
func (r *reserver) tooLarge(jobs []Request) bool {
	return slices.ContainsFunc(jobs, func(job Request) bool { return r.checkCost(job) != nil })
}

// checkCost returns a [*CostError] for a job that counts more than any may.
func (r *reserver) checkCost(job Request) error {
	if most := r.known.LargestCost(); job.Cost > most {
		return &CostError{Limit: r.opts.Name, Cost: job.Cost, MaxCost: most}
	}
	for _, p := range job.Passes {
		if most := r.gates.LargestCost(p.Gate); job.Counts(p) > most {
			return &CostError{Limit: r.opts.Gates[p.Gate].Name, Cost: job.Counts(p), MaxCost: most}
		}
	}
	return nil
}

// collect makes the requests of one call, while there is room. Jobs that count more than any
// may get their answer here.
func (r *reserver) collect(again []Answer, jobs []Request, answers []Answer, room Room) []request {
	asked, units := make([]request, 0, len(again)+len(jobs)), int64(0)
	add := func(q request) {
		q.Cost = max(1, q.Cost)
		switch err := r.checkCost(q.Request); {
		case err != nil:
			if r.failures == 0 { // else the bound may have been raised
				q.answer.Err = err
			}
		case room.has(len(asked), units):
			asked = append(asked, q)
			units += q.Cost
		}
	}
	for i, w := range r.again {
		add(request{Request: w.Q, again: true, answer: &again[i]})
	}
	for i, job := range jobs {
		add(request{Request: job, answer: &answers[i]})
	}
	return asked
}

// waste counts the slots of a caller that has gone.
func (r *reserver) waste(answers []Answer) {
	for _, a := range answers {
		if !a.Slot.IsZero() {
			r.Unused(a.Slot)
		}
	}
}

// answerAgain gives slots to those that ask again. Those without an answer stay.
func (r *reserver) answerAgain(answers []Answer) {
	if len(r.again) == 0 { // they were let go
		r.waste(answers)
		return
	}
	var still []inquiry.Inquiry[Request, Slot]
	for i, w := range r.again {
		if answers[i].Slot.IsZero() && answers[i].Err == nil && answers[i].Until.IsZero() {
			still = append(still, w)
		} else if !w.Answer(answers[i].Slot) {
			r.waste(answers[i : i+1])
		}
	}
	r.again = still
}
