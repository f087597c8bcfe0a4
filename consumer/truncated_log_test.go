package consumer_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dispatcher/consumer"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// runUntil runs a node until an offset is committed, and returns the metadata of its last
// commit.
func (w *fleet) runUntil(offset int64) string {
	w.t.Helper()
	n := w.start(w.options(), settled)
	w.waitFor("jobs", 0, offset)
	w.ok(n.end())
	_, metadata := w.committed("jobs", 0)
	return metadata
}

// The committed offset is beyond the log's end, and its metadata names this topic: the log was
// truncated. The remaining jobs were done, and are not handed out again.
func TestATruncatedLogContinuesAtItsEnd(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 10)...)
		w.commit("jobs", 0, 100, w.runUntil(10))
		var log bytes.Buffer
		o := w.options()
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		n := w.start(o, settled)
		w.waitFor("jobs", 0, 10)
		w.produce("jobs", numbered(10, 15)...)
		w.waitFor("jobs", 0, 15)
		w.ok(n.end())
		if got, want := fmt.Sprint(n.values()), "[10 11 12 13 14]"; got != want {
			t.Errorf("got %s handed out, want %s", got, want)
		}
		for _, want := range []string{"the log was truncated", "topic=jobs", "partition=0", "committed=100", "log_end=10"} {
			if strings.Count(log.String(), want) == 0 {
				t.Errorf("got the log %s, want %q in it", log.String(), want)
			}
		}
		if got := strings.Count(log.String(), "the log was truncated"); got != 1 {
			t.Errorf("got it logged %d times, want once", got)
		}
		again := w.start(o, settled)
		w.until("it is joined", func() bool { return again.c.Status().Joined })
		w.ok(again.end())
		if got := strings.Count(log.String(), "the log was truncated"); got != 1 || len(again.values()) != 0 {
			t.Errorf("after a restart: got it logged %d times and %v handed out, want once and nothing", got, again.values())
		}
	})
}

// Completed offsets that lay beyond the end of a log that was cut mean nothing once the log has grown again, also where the
// node that found them settled nothing.
func TestMetadataBeyondTheLogIsNotBelievedLater(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 10)...)
		n := w.start(w.options(), exceptZero)
		w.until("all are handed out", func() bool { return len(n.values()) == 10 })
		w.ok(n.end())
		_, metadata := w.committed("jobs", 0) // the nine behind the offset are complete
		w.commit("jobs", 0, 5, metadata)      // 6 to 14, of a log that ends at 10
		idle := w.start(w.options(), releasedLater)
		w.until("it has the rest", func() bool { return len(idle.values()) == 5 })
		w.ok(idle.end())
		w.produce("jobs", numbered(10, 20)...)
		next := w.start(w.options(), settled)
		w.waitFor("jobs", 0, 20)
		w.ok(next.end())
		if got, want := fmt.Sprint(next.values()), "[5 6 7 8 9 10 11 12 13 14 15 16 17 18 19]"; got != want {
			t.Errorf("got %s handed out, want %s", got, want)
		}
	})
}

// With out_of_range: stop, a truncated log ends the node.
func TestATruncatedLogStopsTheNode(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 10)...)
		w.commit("jobs", 0, 100, w.runUntil(10))
		o := w.options()
		o.OutOfRange = consumer.RangeStop
		n := w.start(o, settled)
		if err := <-n.err; err == nil || !strings.Contains(err.Error(), "offset 100 is outside of the log from 0 to 10") {
			t.Errorf("got error %v, want that offset 100 is outside of the log", err)
		}
	})
}

// A committed offset whose metadata names another topic is ignored, even if the log reaches
// beyond it. No job of the new topic is left out.
func TestAnOffsetOfAnotherTopicIsNotBelieved(t *testing.T) {
	t.Parallel()
	for policy, want := range map[consumer.OutOfRange]int{consumer.RangeEarliest: 50, consumer.RangeLatest: 0} {
		for name, offset := range map[string]int64{"within the log": 20, "beyond its end": 200} {
			t.Run(fmt.Sprint(policy, " ", name), func(t *testing.T) {
				t.Parallel()
				bubble(t, 1, func(w *fleet) {
					w.produce("jobs", numbered(0, 20)...)
					old := w.runUntil(20)
					w.recreate(1, 50)
					w.commit("jobs", 0, offset, old)
					o := w.options()
					o.OutOfRange = policy
					n := w.start(o, settled)
					w.waitFor("jobs", 0, 50)
					w.ok(n.end())
					if got := len(newJobs(n.values())); got != want {
						t.Errorf("got %d jobs of the new topic handed out, want %d", got, want)
					}
				})
			})
		}
	}
}

func TestAnOffsetOfAnotherTopicUnderOutOfRangeStop(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 20)...)
		old := w.runUntil(20)
		w.recreate(1, 50)
		w.commit("jobs", 0, 20, old)
		o := w.options()
		o.OutOfRange = consumer.RangeStop
		n := w.start(o, settled)
		if err := <-n.err; err == nil || !strings.Contains(err.Error(), "committed in a topic that was deleted") {
			t.Errorf("got error %v, want that the offset is of a deleted topic", err)
		}
	})
}

// Metadata of format v1 holds. The next commit names the topic, even if no job is completed.
func TestABitmapWithoutATopicIsTakenOver(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 5)...)
		w.commit("jobs", 0, 1, "v1;AAEC") // 1 is open, 2 and 3 are complete
		n := w.start(w.options(), nil)
		held := n.holding(2)
		if got := fmt.Sprint(n.values()); got != "[1 4]" {
			t.Errorf("got %s handed out, want [1 4]", got)
		}
		w.until("the topic's id is committed", func() bool {
			offset, metadata := w.committed("jobs", 0)
			return offset == 1 && strings.HasPrefix(metadata, "v2;") && len(metadata) > onlyID
		})
		for _, d := range held {
			d.Done(consumer.Outcome{})
		}
		w.ok(n.end())
	})
}

// On a broker that creates topics on request, a deleted topic stays deleted: no request of a
// node creates it.
func TestADeletedTopicStaysDeleted(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]func(*consumer.Options){
		"plain":        func(*consumer.Options) {},
		"retry topics": func(o *consumer.Options) { o.RetryTopics = []time.Duration{time.Second} },
		"results":      func(o *consumer.Options) { o.Results = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbleWith(t, 1, func(w *fleet) {
				opts := w.options()
				o(&opts)
				w.produce("jobs", numbered(0, 10)...)
				var asked, creating atomic.Int64 // whether a request comes after the deletion is chance
				w.cluster.ControlKey(int16(kmsg.Metadata), func(r kmsg.Request) (kmsg.Response, error, bool) {
					w.cluster.KeepControl()
					asked.Add(1)
					if r.(*kmsg.MetadataRequest).AllowAutoTopicCreation {
						creating.Add(1)
					}
					return nil, nil, false
				})
				n := w.start(opts, settled)
				other := w.start(opts, settled)
				w.waitFor("jobs", 0, 10)
				w.ok(w.cluster.DeleteTopic("jobs"))
				for range 100 { // longer than kafka-go waits between two checks for new partitions
					time.Sleep(time.Second)
					if w.cluster.TopicInfo("jobs") != nil {
						w.t.Fatal("got the topic again, want it to stay deleted")
					}
				}
				w.ok(n.end())
				w.ok(other.end())
				if asked.Load() == 0 || creating.Load() > 0 {
					w.t.Errorf("got %d of %d metadata requests that may create a topic, want none of some", creating.Load(), asked.Load())
				}
			}, []kfake.Opt{kfake.AllowAutoTopicCreation()})
		})
	}
}
