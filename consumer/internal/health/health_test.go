package health_test

import (
	"errors"
	"testing"

	"dispatcher/consumer/internal/health"
)

// A fault is over when its source works, and when its topic's assignment has ended. That of another topic stays.
func TestAFaultThatIsOverIsNotShown(t *testing.T) {
	t.Parallel()
	jobs := health.Source{Doing: health.Fetch, Topic: "jobs", Partition: 3}
	codes := health.Source{Doing: health.Fetch, Topic: "codes", Partition: 1}
	for name, end := range map[string]func(h *health.Health){
		"it works":               func(h *health.Health) { h.Works(jobs) },
		"its assignment is over": func(h *health.Health) { h.Forget("jobs") },
	} {
		var h health.Health
		h.Fails(jobs, errors.New("no leader"), 0)
		end(&h)
		if last, _, lasting := h.Read(); last != nil || lasting != nil {
			t.Errorf("%s: got the faults %v and %v, want none", name, last, lasting)
		}
		h.Fails(jobs, errors.New("no leader"), 0)
		h.Fails(codes, errors.New("not allowed"), 0)
		end(&h)
		if last, _, lasting := h.Read(); last == nil || lasting == nil {
			t.Errorf("%s: got the faults %v and %v, want that of the other topic", name, last, lasting)
		}
	}
}
