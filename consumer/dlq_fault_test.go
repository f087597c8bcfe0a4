package consumer_test

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dispatcher/consumer"
	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/dlq"
	"dispatcher/job"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Commands that run at the same time settle every letter once. None undoes what another one has
// settled.
func TestConcurrentCommandsSettleEachLetterOnce(t *testing.T) {
	t.Parallel()
	bubble(t, 3, func(w *fleet) {
		const all = 3000
		w.produce("jobs.dlq", deadRecords(all)...)
		type outcome struct {
			tally dlq.Tally
			err   error
		}
		outcomes := make(chan outcome, 3)
		for i := range 3 {
			f := dlq.Filter{Topics: []string{"jobs"}}
			go func() {
				var tally dlq.Tally
				var err error
				if i < 2 {
					tally, err = w.dlqClient().Replay(w.t.Context(), f, dlq.ReplayOptions{Rate: 500})
				} else {
					f.Key = []byte("k2999")
					tally, err = w.dlqClient().Drop(w.t.Context(), f, false)
				}
				outcomes <- outcome{tally, err}
			}()
		}
		sum := int64(0)
		for range 3 {
			o := <-outcomes
			if o.err != nil || o.tally.Left() != 0 {
				t.Errorf("got %+v and error %v, want none left", o.tally, o.err)
			}
			sum += o.tally.Done
		}
		if got, _ := w.openLetters(allLetters); sum != all || len(got) != 0 {
			t.Errorf("got %d letters settled and %d left, want %d and none", sum, len(got), all)
		}
	}, "jobs", "jobs.dlq")
}

// A letter stays open if Kafka refuses its job.
func TestALetterWhoseJobIsRefusedStaysOpen(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs.dlq", deadRecords(5)...)
		fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "jobs", Err: kerr.NotEnoughReplicas, Count: -1})
		tally, err := w.dlqClient().Replay(w.t.Context(), allLetters, dlq.ReplayOptions{})
		if !errors.Is(err, kafka.NotEnoughReplicas) || tally.Done != 0 || tally.Unwritten != 5 {
			t.Errorf("got %+v and error %v, want 5 unwritten and %v", tally, err, kafka.NotEnoughReplicas)
		}
		fault.Remove()
		large := deadRecord("5", 5)
		large.Value = noise('x', 100_000)
		w.produce("jobs.dlq", large)
		fault = w.refuse("jobs", 50_000)
		tally, err = w.dlqClient().Replay(w.t.Context(), allLetters, dlq.ReplayOptions{})
		if err != nil || tally.Done != 5 || tally.Unwritten != 1 || len(tally.Notes) != 1 {
			t.Errorf("one too large: got %+v and error %v, want 5 done, 1 unwritten and a note", tally, err)
		}
		fault.Remove()
		if got, _ := w.openLetters(allLetters); len(got) != 1 || len(got[0]) != 100_000 {
			t.Errorf("got %d letters left, want the large one only", len(got))
		}
	}, "jobs", "jobs.dlq")
}

// An interrupt ends a replay between two batches; what was written is settled.
func TestAnInterruptedReplaySettlesWhatItWrote(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs.dlq", deadRecords(100)...)
		ctx, stop := context.WithCancel(w.t.Context())
		time.AfterFunc(30*time.Second, stop)
		tally, err := w.dlqClient().Replay(ctx, allLetters, dlq.ReplayOptions{Rate: 1})
		if !errors.Is(err, context.Canceled) || tally.Done < 20 || tally.Done > 31 {
			t.Errorf("got %d replayed and error %v, want 20 to 31 and %v", tally.Done, err, context.Canceled)
		}
		if got, _ := w.openLetters(allLetters); int64(len(got)) != 100-tally.Done || int64(len(w.topicRecords("jobs"))) != tally.Done {
			t.Errorf("got %d letters left and %d jobs, want %d and %d", len(got), len(w.topicRecords("jobs")), 100-tally.Done, tally.Done)
		}
	}, "jobs", "jobs.dlq")
}

// A command settles no letters while a consumer reads their topic in the same group.
func TestLettersThatAConsumerReadsAreNotSettled(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs.dlq", deadRecords(2)...)
		o := w.options()
		o.Topics = []string{"jobs.dlq"}
		n := w.start(o, nil)
		n.holding(2)
		if _, err := w.dlqClient().Drop(w.t.Context(), allLetters, false); err == nil || !strings.Contains(err.Error(), "group g.jobs.dlq is in use by a consumer") {
			t.Errorf("got error %v, want that the group is in use by a consumer", err)
		}
		go n.settleHeld()
		n.stop()
		<-n.over
	}, "jobs", "jobs.dlq")
}

// A command whose heartbeats are lost loses the membership to the next command, and does not
// overwrite what that one has settled.
func TestACommandWithoutHeartbeatsOverwritesNothing(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		const all, rate = 200, 5
		w.produce("jobs.dlq", deadRecords(all)...)
		var silent atomic.Bool
		o := dlq.Options{Connection: consumer.Connection{Brokers: []string{broker}, Dial: w.lossy(func(key int16, _ int) bool {
			return silent.Load() && (key == int16(kmsg.Heartbeat) || key == int16(kmsg.JoinGroup))
		})}, Group: "g"}
		first, err := dlq.New(o)
		w.ok(err)
		type outcome struct {
			tally dlq.Tally
			err   error
		}
		one := make(chan outcome, 1)
		go func() {
			tally, err := first.Replay(w.t.Context(), allLetters, dlq.ReplayOptions{Rate: rate})
			one <- outcome{tally, err}
		}()
		time.Sleep(10 * time.Second)
		silent.Store(true)
		time.Sleep(20 * time.Second)
		other, err := w.dlqClient().Drop(w.t.Context(), dlq.Filter{Topics: []string{"jobs"}, Key: []byte("k199")}, false)
		if err != nil || other.Done != 1 {
			t.Errorf("the other: got %+v and error %v, want 1 dropped", other, err)
		}
		if got := len(w.topicRecords("jobs")); len(one) > 0 || got < rate || got > all/2 {
			t.Errorf("got %d jobs without heartbeats, want %d to %d", got, rate, all/2)
		}
		silent.Store(false)
		o1 := <-one
		if o1.err != nil || o1.tally.Done != all-1 || o1.tally.Left() != 0 {
			t.Errorf("the first: got %+v and error %v, want %d replayed", o1.tally, o1.err, all-1)
		}
		if got, _ := w.openLetters(allLetters); len(got) != 0 || len(w.topicRecords("jobs")) != all-1 {
			t.Errorf("got %v left and %d jobs, want none and %d", got, len(w.topicRecords("jobs")), all-1)
		}
	}, "jobs", "jobs.dlq")
}

// A replay that waits for its rate may lose the membership meanwhile. It does not write the
// letters that another command replays during the wait.
func TestAReplayChecksItsLettersAfterTheWaitForItsRate(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs.dlq", deadRecords(4)...)
		var silent atomic.Bool
		slow, err := dlq.New(dlq.Options{Connection: consumer.Connection{Brokers: []string{broker}, Dial: w.lossy(func(key int16, _ int) bool {
			return silent.Load() && (key == int16(kmsg.Heartbeat) || key == int16(kmsg.JoinGroup))
		})}, Group: "g"})
		w.ok(err)
		over := make(chan struct{})
		go func() {
			defer close(over)
			tally, err := slow.Replay(w.t.Context(), allLetters, dlq.ReplayOptions{Rate: 0.01})
			if err != nil || tally.Done != 1 {
				t.Errorf("the slow one: got %+v and error %v, want 1 replayed", tally, err)
			}
		}()
		time.Sleep(20 * time.Second)
		silent.Store(true)
		time.Sleep(30 * time.Second)
		tally, err := w.dlqClient().Replay(w.t.Context(), allLetters, dlq.ReplayOptions{})
		if err != nil || tally.Done != 3 {
			t.Errorf("the other: got %+v and error %v, want 3 replayed", tally, err)
		}
		silent.Store(false)
		<-over
		if got := len(w.topicRecords("jobs")); got != 4 {
			t.Errorf("got %d jobs, want each of the 4 once", got)
		}
	}, "jobs", "jobs.dlq")
}

// Aborted letters and transaction markers are skipped.
func TestAbortedLettersAreSkipped(t *testing.T) {
	t.Parallel()
	addr := onLoopback(t)
	conn := consumer.Connection{Brokers: []string{addr}}
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.TransactionalID("tx"), kgo.DefaultProduceTopic("jobs.dlq"), kgo.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	letters, err := dlq.New(dlq.Options{Connection: conn, Group: "g"})
	if err != nil {
		t.Fatal(err)
	}
	adm := &kafka.Client{Addr: kafka.TCP(addr)}
	if _, err := adm.CreateTopics(t.Context(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{Topic: "jobs.dlq", NumPartitions: 1, ReplicationFactor: 1}}}); err != nil {
		t.Fatal(err)
	}
	for i, commit := range []bool{false, true, false, false, true, false} {
		transaction(t, cl, "c"+strconv.Itoa(i), commit)
	}
	for range 2 {
		var got []string
		if _, err := letters.List(t.Context(), allLetters, func(l *deadletter.Letter) error {
			got = append(got, string(l.Record.Value))
			return nil
		}); err != nil || strings.Join(got, " ") != "c1 c4" {
			t.Fatalf("got %v and error %v, want [c1 c4]", got, err)
		}
	}
	tally, err := letters.Replay(t.Context(), allLetters, dlq.ReplayOptions{To: "jobs"})
	if err != nil || tally.Done != 2 {
		t.Fatalf("got %+v and error %v, want 2 replayed", tally, err)
	}
	if tally, err = letters.Drop(t.Context(), allLetters, false); err != nil || tally.Open != 0 {
		t.Fatalf("got %+v and error %v, want none open", tally, err)
	}
}

// A truncated letter is completed and replayed if its original record is still there, and not
// if that was deleted or is another record.
func TestATruncatedLetterIsCompleted(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		value := noise('0', 20_000)
		header := job.Header{Key: "mine", Value: noise('h', 9000)}
		for i := range 3 {
			w.produce("jobs", job.Record{Key: []byte("k"), Value: append([]byte(strconv.Itoa(i)), value...), Headers: []job.Header{header}})
		}
		fault := w.refuse("jobs.dlq", 5000)
		n := w.start(w.options(), func(d *consumer.Delivery) {
			d.Dead(deadletter.Failure{Class: deadletter.ClassPermanent}, consumer.Outcome{})
		})
		w.waitFor("jobs", 0, 3)
		w.ok(n.end())
		fault.Remove()
		w.ok(w.cluster.DeleteRecords("jobs", 0, 1))
		forged := w.letters("jobs")[2]
		for i := range forged.Headers {
			if forged.Headers[i].Key == "x-original-offset" {
				forged.Headers[i].Value = []byte("1")
			}
		}
		w.write("jobs.dlq", forged)
		tally, err := w.dlqClient().Replay(w.t.Context(), allLetters, dlq.ReplayOptions{})
		if err != nil || tally.Truncated != 4 || tally.Done != 0 {
			t.Fatalf("got %+v and error %v, want 4 truncated", tally, err)
		}
		tally, err = w.dlqClient().Replay(w.t.Context(), allLetters, dlq.ReplayOptions{Whole: true})
		if err != nil || tally.Truncated != 2 || tally.Done != 2 {
			t.Fatalf("got %+v and error %v, want 2 done and 2 truncated", tally, err)
		}
		jobs := w.recordsFrom("jobs", 3)
		for i, m := range jobs {
			got := headerMap(m)
			if want := append([]byte(strconv.Itoa(i+1)), value...); !bytes.Equal(m.Value, want) || string(m.Key) != "k" || got["mine"] != string(header.Value) ||
				got["x-original-offset"] != strconv.Itoa(i+1) || got["x-redrive"] != "1" || len(m.Headers) != 6 {
				t.Errorf("got %d bytes, key %s, headers %v, want the whole job %d with its 6 headers", len(m.Value), m.Key, m.Headers[1:], i+1)
			}
		}
		if len(jobs) != 2 {
			t.Errorf("got %d jobs replayed, want 2", len(jobs))
		}
	})
}

// A log of dead letters that lost its end, as by an unclean election, opens no letter again: they would all be replayed once more.
// Letters that are written behind it are open.
func TestADeadLetterLogThatLostItsEndOpensNoLetterAgain(t *testing.T) {
	t.Parallel()
	const letters = 10
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs.dlq", deadRecords(letters)...)
		replay := func(want int64, note string) {
			t.Helper()
			tally, err := w.dlqClient().Replay(w.t.Context(), allLetters, dlq.ReplayOptions{})
			if err != nil || tally.Done != want || !strings.Contains(strings.Join(tally.Notes, " "), note) {
				t.Errorf("got %d letters replayed with notes %q and error %v, want %d and %q", tally.Done, tally.Notes, err, want, note)
			}
		}
		replay(letters, "")
		_, metadata := w.committed("jobs.dlq", 0)
		w.commit("jobs.dlq", 0, letters+1, metadata) // which was the end before
		replay(0, "has lost its end")
		w.produce("jobs.dlq", deadRecords(2)...)
		replay(2, "")
		w.commit("jobs.dlq", 0, 100, "") // nobody knows of which topic: better twice than not at all
		replay(letters+2, "count as open")
	}, "jobs", "jobs.dlq")
}

// write writes a record that was read.
func (w *fleet) write(topic string, m kafka.Message) {
	w.t.Helper()
	rec := job.Record{Key: m.Key, Value: m.Value}
	for _, h := range m.Headers {
		rec.Headers = append(rec.Headers, job.Header{Key: h.Key, Value: h.Value})
	}
	w.produce(topic, rec)
}

// A list continues when retention deletes letters meanwhile.
func TestAListContinuesBehindDeletedLetters(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		letters := deadRecords(3000)
		for i := range letters {
			letters[i].Value = append(letters[i].Value, noise(byte(i), 1000)...)
		}
		for i := 0; i < len(letters); i += 100 {
			w.produce("jobs.dlq", letters[i:i+100]...)
		}
		seen := 0
		_, err := w.dlqClient().List(w.t.Context(), allLetters, func(*deadletter.Letter) error {
			if seen++; seen == 1 {
				w.ok(w.cluster.DeleteRecords("jobs.dlq", 0, 2900))
			}
			return nil
		})
		if err != nil || seen < 100 || seen > 2000 {
			t.Errorf("got %d letters and error %v, want 100 to 2000", seen, err)
		}
	}, "jobs", "jobs.dlq")
}

// A command retries while brokers are not ready.
func TestCommandsRetryTemporaryFaults(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs.dlq", deadRecords(5)...)
		for key, err := range map[kmsg.Key]*kerr.Error{
			kmsg.Fetch: kerr.NotLeaderForPartition, kmsg.ListOffsets: kerr.LeaderNotAvailable,
			kmsg.OffsetCommit: kerr.NotCoordinator, kmsg.Produce: kerr.NotEnoughReplicas,
		} {
			w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: err, Count: 3})
		}
		tally, err := w.dlqClient().Replay(w.t.Context(), allLetters, dlq.ReplayOptions{})
		if err != nil || tally.Done != 5 {
			t.Fatalf("got %+v and error %v, want 5 replayed", tally, err)
		}
		if got, _ := w.openLetters(allLetters); len(got) != 0 || len(w.topicRecords("jobs")) != 5 {
			t.Errorf("got %v left and %d jobs, want none and 5", got, len(w.topicRecords("jobs")))
		}
	}, "jobs", "jobs.dlq")
}
