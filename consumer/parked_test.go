package consumer_test

import (
	"strings"
	"testing"

	"dispatcher/consumer"
	"dispatcher/consumer/deadletter"
	"dispatcher/job"
)

// A job that the provider may have done is parked, with the headers of a dead letter. Other
// jobs still go to the dead letters.
func TestUnknownIsParkedWhereThatIsWanted(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", job.Record{Value: []byte("a")}, job.Record{Value: []byte("b")})
		o := w.options()
		o.ParkUnknown = true
		n := w.start(o, func(d *consumer.Delivery) {
			class := deadletter.ClassUnknown
			if d.Job.Offset == 1 {
				class = deadletter.ClassPermanent
			}
			d.Dead(deadletter.Failure{Class: class, Calls: 1}, consumer.Outcome{})
		})
		w.until("both are settled", func() bool { offset, _ := w.committed("jobs", 0); return offset == 2 })
		w.ok(n.end())
		parked, dead := w.records("jobs.parked"), w.letters("jobs")
		if len(parked) != 1 || len(dead) != 1 {
			t.Fatalf("got %d parked and %d dead letters, want 1 and 1", len(parked), len(dead))
		}
		if p, d := headerMap(parked[0]), headerMap(dead[0]); p["x-error-class"] != "unknown" || p["x-original-offset"] != "0" || d["x-error-class"] != "permanent" {
			t.Errorf("got %v parked and %v dead, want offset 0 parked as unknown and the other one permanent", p, d)
		}
	})
}

// The topic of the parked jobs can't be a topic of jobs, and its name must be valid.
func TestTheParkedTopicIsADerivedTopic(t *testing.T) {
	t.Parallel()
	for want, topics := range map[string][]string{
		"is where the parked jobs of jobs go":              {"jobs", "jobs.parked"},
		"must be at most 242 characters: .parked is added": {strings.Repeat("t", 243)},
	} {
		o := consumer.Options{Connection: consumer.Connection{Brokers: []string{"a:1"}}, Group: "g", Topics: topics}
		if _, err := consumer.New(o); err != nil {
			t.Fatalf("without ParkUnknown: got %v, want nil", err)
		}
		o.ParkUnknown = true
		if _, err := consumer.New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: got %v, want %s", topics, err, want)
		}
	}
}
