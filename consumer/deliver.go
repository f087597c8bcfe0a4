package consumer

import (
	"errors"
	"hash/maphash"
	"time"

	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/internal/broker"

	"dispatcher/job"
)

// deliver reads a record as a job, and finds out what its topic says beside it.
func (m *batchMaker) deliver(d *Delivery, rec job.Record, now time.Time) {
	d.part = m.p
	d.key = m.chain(rec.Key)
	d.size = broker.RecordBytes(&rec)
	j, err := job.Decode(rec, job.Limits{MaxBytes: m.maxBytes})
	d.Job = j
	if !j.NotBefore.IsZero() {
		d.hop = &hop{due: j.NotBefore}
	}
	if m.p.tier > 0 {
		d.hop = d.comeBack(m.p.tier, now)
	}
	if err != nil {
		d.doom = unreadable(d, err)
		return
	}
	d.doom = m.p.refuses(d)
}

// comeBack takes over what a tier's record says beside the job. Elsewhere it is
// not believed, for anyone may write it there. The gate is no further away than
// the tier is long, whatever other clocks say.
func (d *Delivery) comeBack(tier time.Duration, now time.Time) *hop {
	rec := &d.Job.Record
	said := deadletter.ReadRetry(rec)
	d.attempts = said.Attempts
	h := &hop{
		due:  d.Job.NotBefore,
		gate: earlier(rec.Time.Add(tier), now.Add(tier)),
	}
	if !said.Due.IsZero() {
		h.gate = earlier(h.gate, said.Due)
		h.due = later(h.due, said.Due)
	}
	if !said.Written.IsZero() {
		rec.Time = said.Written
	}
	return h
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// unreadable is what a dead letter says of a record that is no job.
func unreadable(d *Delivery, err error) *letter {
	f := deadletter.Failure{Class: deadletter.ClassDecode, Message: err.Error(), Attempt: d.Attempts().Calls}
	if e, ok := errors.AsType[*job.Error](err); ok && e.Reason == job.ReasonUnsupported {
		f.Class = deadletter.ClassUnsupported
	}
	return &letter{d: d, f: f}
}

// refuses is what a dead letter says of a job that asks for what its topic does
// not give; nil: nothing. A job that names another lane than its topic's would
// be sent at a priority that its producer did not mean.
func (f *feed) refuses(d *Delivery) *letter {
	switch err := CheckJob(&d.Job, f.lane.name); {
	case errors.Is(err, errLane):
		return &letter{d: d, f: deadletter.Failure{Class: deadletter.ClassUnsupported, Message: err.Error()}}
	case err != nil:
		return &letter{d: d, f: deadletter.Failure{Class: deadletter.ClassDecode, Message: err.Error()}}
	}
	return nil
}

var (
	errLane  = errors.New("lane: is not the lane of the job's topic; write the job to a topic of that lane")
	errTimes = errors.New("not-after: lies before not-before")
)

// CheckJob returns why a node dead-letters a job of a lane's topic unsent; nil: it
// doesn't. Without lanes the lane is [DefaultLane].
func CheckJob(j *job.Job, lane string) error {
	switch {
	case j.Lane != "" && j.Lane != lane:
		return errLane
	case !j.NotBefore.IsZero() && !j.NotAfter.IsZero() && j.NotAfter.Before(j.NotBefore):
		return errTimes
	}
	return nil
}

// chain names the chain that a record belongs to, within a partition. 0 means
// none: the job has no order. An empty key is none. What comes from a tier has
// left the order of its partition.
func (m *batchMaker) chain(key []byte) uint64 {
	switch {
	case m.order == OrderPartition && m.p.tier == 0:
		return 1
	case m.order != OrderKey || len(key) == 0:
		return 0
	}
	return max(maphash.Bytes(m.seed, key), 1)
}
