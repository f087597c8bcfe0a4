package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"dispatcher/internal/containers"
	"dispatcher/internal/provider"
)

const (
	cancelJobs = 10_000 // half of them of the campaign
	cancelCap  = 500
	cancelPart = 6
)

// A campaign of 5,000 among 10,000 jobs is cancelled half-way. None of it is called half a second after the command has
// returned, the other jobs lose no slot, and what was cancelled can be called after all.
func TestCancelReal(t *testing.T) {
	w := startServers(t, containers.Kafka)
	s := w.scene(t, cancelCap, cancelPart, 20*time.Millisecond)
	var all []*kgo.Record
	for n := range cancelJobs {
		campaign := []string{"spring", "other"}[n/cancelPart%2]
		r := s.named(fmt.Sprint(n), fmt.Sprint(campaign, "-", n), kgo.RecordHeader{Key: "campaign", Value: []byte(campaign)})
		r.Partition = int32(n % cancelPart) //nolint:gosec // a small number
		all = append(all, r)
	}
	s.putWhere(t, all...)
	campaign := 0
	for _, r := range all {
		if strings.HasPrefix(string(r.Headers[len(r.Headers)-1].Value), "spring-") {
			campaign++
		}
	}
	s.start(t, 3)
	s.judge.count(t, cancelJobs/2, 2*time.Minute)
	epoch := s.judge.epoch(t)
	lostBefore := s.lostSlots(t)
	began := time.Now()
	t.Log(strings.TrimSpace(s.mustCommand(t, "cancel", "--when", `job.headers["campaign"] == "spring"`, "--for", "24h", "--why", "wrong price")))
	returned := time.Now()
	s.settled(t, 2*time.Minute)

	arrivals := s.judge.arrivals(t)
	springs := callsFrom(arrivals, "spring-")
	late := 0
	for _, at := range springs {
		if at > returned.Sub(epoch)+time.Second/2 {
			late++
		}
	}
	t.Logf("calls in each half second since the command returned: %v", perHalfSecond(arrivals, returned.Sub(epoch)))
	t.Logf("slots that were lost before and in all, by reason: %v, %v", lostBefore, s.lostSlots(t))
	first := callsFrom(arrivals, "")[0]
	before, used := s.used(t, arrivals, first+time.Second, began.Sub(epoch)), s.used(t, arrivals, returned.Sub(epoch), time.Hour)
	t.Logf("the command took %v; %d of %d jobs of the campaign were called, the last one %v after it returned; then %.4f of the cap used by the others, and %.4f before",
		returned.Sub(began).Round(time.Millisecond), len(springs), campaign, (springs[len(springs)-1] - returned.Sub(epoch)).Round(time.Millisecond), used, before)
	if late > 0 {
		t.Errorf("got %d calls of the campaign later than 500 ms after the command returned, want none", late)
	}
	if others := callsFrom(arrivals, "other-"); len(others) != cancelJobs-campaign {
		t.Errorf("got %d calls of the others, want each of %d once", len(others), cancelJobs-campaign)
	}
	figure(t, used >= before-0.02, "got %.4f of the cap used after the campaign was cancelled and %.4f before, want no less: the others lose no slot", used, before)

	rest := campaign - len(springs)
	t.Log(strings.TrimSpace(s.mustCommand(t, "rules", "end", "1", "--why", "the price is right")))
	if got := s.settle(t, "replay", "--reason", "cancelled"); got.Done != int64(rest) {
		t.Errorf("got %+v, want the %d dead letters replayed that were not called", got, rest)
	}
	s.settled(t, 2*time.Minute)
	r := s.judge.report(t, cancelCap)
	once(t, r, cancelJobs)
	stop(t, s.running()...)
}

// lostSlots are the slots of all nodes that no call used, by reason.
func (s *scene) lostSlots(t *testing.T) map[string]float64 {
	t.Helper()
	lost := make(map[string]float64)
	for _, reason := range []string{"late", "unused"} {
		for _, n := range s.nodes {
			lost[reason] += n.metric(t, "dispatcher_limit_"+reason+"_slots_total")
		}
	}
	return lost
}

// callsFrom are the times of the calls of the jobs whose ids begin so, in order.
func callsFrom(arrivals []provider.Arrival, prefix string) (at []time.Duration) {
	for _, a := range arrivals {
		if strings.HasPrefix(a.Key, prefix) {
			at = append(at, a.At)
		}
	}
	slices.Sort(at)
	return at
}

// perHalfSecond counts the calls from a time on.
func perHalfSecond(arrivals []provider.Arrival, from time.Duration) (counts []int) {
	for _, a := range arrivals {
		if n := int((a.At - from) / (time.Second / 2)); a.At >= from {
			for len(counts) <= n {
				counts = append(counts, 0)
			}
			counts[n]++
		}
	}
	return counts
}

// used is the share of the cap that was used between two times, from the first call to the last.
func (s *scene) used(t *testing.T, arrivals []provider.Arrival, from, to time.Duration) float64 {
	t.Helper()
	var at []time.Duration
	for _, a := range arrivals {
		if a.At >= from && a.At < to {
			at = append(at, a.At)
		}
	}
	if len(at) < s.cap {
		t.Fatalf("got %d calls from %v to %v, want some seconds of them", len(at), from, to)
	}
	return float64(len(at)-1) / (slices.Max(at) - slices.Min(at)).Seconds() / float64(s.cap)
}
