package consumer

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"dispatcher/consumer/deadletter"

	"dispatcher/consumer/internal/topicname"
)

// A retry tier is a companion of a topic, <topic>.retry.<delay>, whose records
// all wait equally long. So the order in which they were written is the order in
// which they are due, and only the first one has to be looked at.

const (
	// restMost is how long a job may wait in memory for its time where there
	// are no tiers. Meanwhile its offset is open, and the ledger's window ends
	// so many offsets further on.
	restMost = time.Minute

	// tierSlack lets a wait that was meant to be as long as a tier be that,
	// though some of it has passed. The job is due when it is due all the same.
	tierSlack = 10 * time.Millisecond
)

// tierFor is the longest tier that is over within a wait; 0: none is.
func tierFor(tiers []time.Duration, wait time.Duration) time.Duration {
	for _, t := range slices.Backward(tiers) {
		if t <= wait {
			return t
		}
	}
	return 0
}

// companionsOf are the topics that belong to a job topic.
func (o *Options) companionsOf(topic string) []string {
	all := []string{topicname.Dead(topic)}
	if o.ParkUnknown {
		all = append(all, topicname.Parked(topic))
	}
	if o.Results {
		all = append(all, topicname.Results(topic))
	}
	for _, t := range o.RetryTopics {
		all = append(all, topicname.Retry(topic, t))
	}
	return all
}

// delay sees to a job that is not due for so long: through a tier, in memory, or
// not at all.
func (p *partition) delay(d *Delivery, wait time.Duration) {
	tier := tierFor(p.hub.tiers, wait)
	switch {
	case tier > 0:
		f := deadletter.Failure{Attempt: d.Attempts().Calls, Failures: d.Attempts().Failures}
		p.condemn(d, &letter{d: d, f: f, tier: tier, at: d.hop.due})
	case len(p.hub.tiers) > 0 || wait <= restMost:
		p.rest(d)
	default:
		p.condemn(d, &letter{d: d, f: deadletter.Failure{
			Class: deadletter.ClassUnsupported, Attempt: d.Attempts().Calls,
			Message: fmt.Sprintf("not-before: is more than %v ahead; kafka.retry_topics would allow it", restMost),
		}})
	}
}

// rest keeps a job in memory until it is due. It is open in the ledger, and holds
// neither its key nor its partition.
func (p *partition) rest(d *Delivery) {
	p.unlink(d)
	p.doze(alarm{at: d.hop.due, part: p, d: d})
}

// RetryLater writes the job to the longest retry tier that is over by then and, once
// Kafka has acknowledged it, settles it. It blocks as [Delivery.Dead] does. The
// job comes back with its calls and failures as its [Delivery.Attempts], at that time. Only in
// the order none, and only where a tier is short enough: it returns false, and
// has done nothing, where the job is to wait in place.
func (d *Delivery) RetryLater(at time.Time, f deadletter.Failure) bool {
	h := d.part.hub
	tier := tierFor(h.tiers, time.Until(at)+tierSlack)
	if h.order != OrderNone || tier == 0 {
		return false
	}
	if !h.claim(d) {
		return true
	}
	d.Step("goes to a retry topic", slog.Duration("delay", tier), slog.Time("until", at), slog.String("class", string(f.Class)))
	if len(h.dead.bury(d.part.asg.letters, []letter{{d: d, f: f, tier: tier, at: at}})) == 0 {
		return true
	}
	h.dead.tellUnfit(d, tier)
	h.takeBack(d)
	return false
}
