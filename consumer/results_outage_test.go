package consumer_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"pgregory.net/rapid"

	"dispatcher/job"
)

// outage is a time in which results can't be written, and whether the node ends
// in it and another one goes on.
type outage struct {
	After, For time.Duration
	Restart    bool
}

// Whatever happens to the results topic and to nodes, at the end each job has a result, there
// are no more results than hand-outs, and those of a key are in its order.
func TestNoResultIsLost(t *testing.T) {
	t.Parallel()
	ms := func(t *rapid.T, name string, most int) time.Duration {
		return time.Duration(rapid.IntRange(0, most).Draw(t, name)) * time.Millisecond
	}
	plan := rapid.Custom(func(t *rapid.T) outage {
		return outage{After: ms(t, "after", 300), For: ms(t, "for", 9000), Restart: rapid.Bool().Draw(t, "restart")}
	})
	var plans [][]outage
	rapid.Check(t, func(t *rapid.T) { plans = append(plans, rapid.SliceOfN(plan, 1, 4).Draw(t, "outages")) })
	for i, outages := range plans {
		if i == 25 {
			break
		}
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			bubble(t, 1, func(w *fleet) { w.runOutages(outages) })
		})
	}
}

func (w *fleet) runOutages(outages []outage) {
	w.t.Helper()
	const keys, each = 5, 8
	n := w.startSettling(w.withResults(), accepted)
	w.until("joined", func() bool { return n.c.Status().Joined })
	var records []job.Record
	for i := range keys * each {
		records = append(records, job.Record{Key: []byte{'a' + byte(i%keys)}, Value: fmt.Append(nil, i)})
	}
	var producing sync.WaitGroup
	defer producing.Wait()
	producing.Go(func() {
		for _, r := range records {
			w.produce("jobs", r)
			time.Sleep(20 * time.Millisecond)
		}
	})
	handed := 0
	for _, o := range outages {
		time.Sleep(o.After)
		fault := w.failResults("jobs")
		time.Sleep(o.For)
		if o.Restart {
			w.ok(n.end())
			handed += len(n.values())
			n = w.startSettling(w.withResults(), accepted)
		}
		fault.Remove()
	}
	w.waitFor("jobs", 0, keys*each)
	w.ok(n.end())
	handed += len(n.values())
	names, got := w.results("jobs")
	w.checkResults(names, got, keys*each)
	if len(got) > handed {
		w.t.Errorf("got %d results of %d hand-outs, want no more", len(got), handed)
	}
}

// checkResults checks that each job has a result, and the order within a key.
func (w *fleet) checkResults(keys []string, got []job.Result, jobs int) {
	w.t.Helper()
	seen, reached := map[int64]int{}, map[string]int64{}
	for i, r := range got {
		if seen[r.Offset]++; seen[r.Offset] > 1 {
			continue // worked again after a stop; the first time counts for the order
		}
		if last, ok := reached[keys[i]]; ok && r.Offset < last {
			w.t.Errorf("key %s: got offset %d after %d, want a later one", keys[i], r.Offset, last)
		}
		reached[keys[i]] = r.Offset
	}
	if len(seen) != jobs {
		w.t.Errorf("got results of %d jobs, want %d: %v", len(seen), jobs, slices.Sorted(maps.Keys(seen)))
	}
}

// Partitions that are added to the results topic are used, and keys go where any producer
// would put them.
func TestResultsFollowNewPartitions(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		n := w.startSettling(w.withResults(), accepted)
		w.produce("jobs", job.Record{Key: []byte("k"), Value: []byte("x")})
		w.waitFor("jobs", 0, 1)
		res, err := w.client.CreatePartitions(w.t.Context(), &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{{Name: "jobs.results", Count: 3}}})
		w.ok(err)
		w.ok(res.Errors["jobs.results"])
		time.Sleep(2 * time.Minute)
		w.produce("jobs", job.Record{Key: []byte("k"), Value: []byte("x")}) // finds out
		w.waitFor("jobs", 0, 2)
		var all []job.Record
		for i := range 60 {
			all = append(all, job.Record{Key: fmt.Append(nil, i), Value: []byte("x")})
		}
		w.produce("jobs", all...)
		w.waitFor("jobs", 0, 62)
		w.ok(n.end())
		for p := range 3 {
			res, err := w.client.ListOffsets(w.t.Context(), &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{"jobs.results": {kafka.LastOffsetOf(p)}}})
			w.ok(err)
			if end := res.Topics["jobs.results"][0].LastOffset; end < 5 {
				t.Errorf("partition %d: got %d results, want about a third of 62", p, end)
			}
		}
	})
}

// Nodes that start where there are no derived topics yet write results at once, whichever node
// created them.
func TestFirstResultsDoNotWait(t *testing.T) {
	t.Parallel()
	for i := range 5 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			bubble(t, 6, func(w *fleet) {
				nodes := []*node{w.startSettling(w.withResults(), accepted), w.startSettling(w.withResults(), accepted), w.startSettling(w.withResults(), accepted)}
				w.until("all have joined", func() bool {
					parts := 0
					for _, n := range nodes {
						parts += len(n.c.Status().Partitions)
					}
					return parts == 6
				})
				began := time.Now()
				for k := range 6 {
					w.produce("jobs", job.Record{Key: []byte(keysOf(k, 6, 1)[0]), Value: []byte("x")})
				}
				for k := range 6 {
					w.waitFor("jobs", k, 1)
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("the first results took %v, want at most 1s", took)
				}
			})
		})
	}
}
