package integration

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"dispatcher/internal/provider"
)

const (
	orderKeys = 1000
	orderEach = 50
)

// orderOfKeys: one call in ten is unavailable, a node leaves and another one
// comes, and still each job of a key is called only when all before it were
// accepted. The cap does not bind.
func (w *servers) orderOfKeys(t *testing.T) {
	s := w.scripted(t, 20_000, 12, 2*time.Millisecond)
	var records []*kgo.Record
	for j := range orderEach {
		for k := range orderKeys {
			records = append(records, s.named(fmt.Sprint("k", k), fmt.Sprintf("shaky-%d-%d", k, j)))
		}
	}
	put(t, s.producer(t), records...)
	begin := time.Now()
	nodes := s.start(t, 3)
	s.judge.count(t, orderKeys*orderEach/4, time.Minute)
	stop(t, nodes[1])
	s.startOne(t)
	s.settled(t, 2*time.Minute)
	took := time.Since(begin)
	s.lagGone(t)
	stop(t, s.running()...)
	all := s.judge.arrivals(t)
	failed := inOrder(t, all)
	r := s.judge.report(t, s.cap)
	kept(t, r)
	if r.Accepted != orderKeys*orderEach || r.Doubled != 0 || r.Sent != r.Accepted+failed {
		t.Errorf("got %+v with %d calls unavailable, want each of %d jobs accepted once", r.Verdict, failed, orderKeys*orderEach)
	}
	if dead := s.held(t, s.topic+".dlq"); dead != 0 {
		t.Errorf("got %d dead letters, want none", dead)
	}
	t.Logf("%d jobs of %d keys in %v, %d calls unavailable, no job before its predecessor was accepted", r.Accepted, orderKeys, took.Round(time.Millisecond), failed)
}

// inOrder holds each call to the number of jobs of its key that were accepted
// before, and returns how many calls were not accepted.
func inOrder(t *testing.T, all []provider.Arrival) (failed int) {
	t.Helper()
	slices.SortFunc(all, func(a, b provider.Arrival) int { return int(a.At - b.At) })
	next, wrong := map[string]int{}, 0
	for _, a := range all {
		key, number, ok := strings.Cut(strings.TrimPrefix(a.Key, "shaky-"), "-")
		j, err := strconv.Atoi(number)
		if !ok || err != nil {
			t.Fatalf("got a call of %q", a.Key)
		}
		if j != next[key] {
			if wrong++; wrong < 10 {
				t.Errorf("key %s: job %d was called by node %d when %d were accepted", key, j, a.Node, next[key])
			}
		}
		if a.Status == 200 {
			next[key] = j + 1
		} else {
			failed++
		}
	}
	if wrong > 0 {
		t.Errorf("%d calls were out of order", wrong)
	}
	return failed
}
