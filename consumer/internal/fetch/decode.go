package fetch

import (
	"errors"
	"time"

	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/internal/batches"
	"dispatcher/consumer/internal/diversion"
	"dispatcher/consumer/internal/schedule"
	"dispatcher/job"
)

// decode decodes a record into d, with the retry metadata where the topic is a retry topic.
// It returns the bytes that the job takes in memory.
func (m *batchMaker) decode(d *schedule.Delivery, rec job.Record, now time.Time) int {
	var err error
	d.Job, err = job.Decode(rec, m.limits)
	src := m.p.Source()
	about := schedule.Prepared{Size: batches.RecordBytes(&rec), Due: d.Job.NotBefore}
	if src.Delay > 0 {
		readRetry(&about, &d.Job, src.Delay, now)
	}
	f := refusal(&d.Job, err, src.Lane.Name())
	if f == nil && src.Tenant != nil {
		about.Tenant, f = tenantOf(src, &d.Job)
	}
	if f != nil {
		f.Calls = about.Attempts.Calls
		about.Diversion = diversion.Unreadable(*f)
	}
	schedule.Prepare(d, m.p, about)
	return about.Size
}

// tenantOf is the tenant of a job in a fair lane, or why it has none.
func tenantOf(src *schedule.Source, j *job.Job) (string, *deadletter.Failure) {
	tenant, err := src.Tenant(j)
	if err != nil {
		return "", &deadletter.Failure{Class: deadletter.ClassUnsupported, Message: "lane " + src.Lane.Name() + ": fair: " + err.Error()}
	}
	return tenant, nil
}

// readRetry reads the retry metadata of a retry topic's record. In other topics it is
// ignored, for any producer may write it there. The job is looked at no later than the
// topic's delay from now, whatever other clocks say.
func readRetry(about *schedule.Prepared, j *job.Job, delay time.Duration, now time.Time) {
	rec := &j.Record
	retry := deadletter.ReadRetry(rec)
	about.Attempts = retry.Attempts
	about.LookAt = earlier(rec.Time.Add(delay), now.Add(delay))
	if !retry.Due.IsZero() {
		about.LookAt = earlier(about.LookAt, retry.Due)
		about.Due = later(about.Due, retry.Due)
	}
	if !retry.Written.IsZero() {
		rec.Time = retry.Written
	}
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

// refusal is why no worker may have a job; nil: one may. err is that of decoding it.
func refusal(j *job.Job, err error, lane string) *deadletter.Failure {
	class := deadletter.ClassDecode
	if e, ok := errors.AsType[*job.Error](err); ok && e.Reason == job.ReasonUnsupported {
		class = deadletter.ClassUnsupported
	}
	if err == nil {
		if err = CheckJob(j, lane); errors.Is(err, errLane) {
			class = deadletter.ClassUnsupported
		}
	}
	if err == nil {
		return nil
	}
	return &deadletter.Failure{Class: class, Message: err.Error()}
}

var (
	// A job that names another lane than its topic's would be sent at a priority that its
	// producer did not mean.
	errLane  = errors.New("lane: is not the lane of the job's topic; write the job to a topic of that lane")
	errTimes = errors.New("not-after: lies before not-before")
)

// CheckJob returns why a node dead-letters a job of a lane's topic unsent; nil: it doesn't.
func CheckJob(j *job.Job, lane string) error {
	switch {
	case j.Lane != "" && j.Lane != lane:
		return errLane
	case !j.NotBefore.IsZero() && !j.NotAfter.IsZero() && j.NotAfter.Before(j.NotBefore):
		return errTimes
	}
	return nil
}
