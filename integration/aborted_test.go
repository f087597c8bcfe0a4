package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// aborted: of a producer with transactions, a third of which it aborts, only
// what was committed is sent, one that stays open holds up what lies behind it,
// and no lag is left over.
func (w *servers) aborted(t *testing.T) {
	t.Helper()
	const batches, each = 60, 50
	s := w.scene(t, 2000, 6, 0)
	cl := s.producer(t, kgo.TransactionalID(s.topic+"-producer"))
	n := s.startOne(t)
	sure := 0
	for i := range batches {
		commit := i%3 != 0
		name := map[bool]string{true: "sure", false: "aborted"}[commit]
		s.transact(t, cl, kgo.TransactionEndTry(commit), s.batch(fmt.Sprint(name, "-", i), each)...)
		if commit {
			sure += each
		}
	}
	s.judge.count(t, sure, time.Minute)
	begin(t, cl, s.batch("open", each)...)
	other := s.producer(t)
	put(t, other, s.batch("behind", each)...)
	pass(2 * time.Second) // nothing of the open transaction may come, nor what lies behind it
	if sent := s.judge.report(t, s.cap).Sent; sent != sure {
		t.Errorf("got %d calls beside an open transaction, want %d", sent, sure)
	}
	end(t, cl, kgo.TryAbort)
	s.settled(t, time.Minute)
	s.lagGone(t)
	stop(t, n)
	for key := range statuses(s.judge.arrivals(t)) {
		if strings.HasPrefix(key, "aborted") || strings.HasPrefix(key, "open") {
			t.Errorf("job %s was aborted, and sent", key)
		}
	}
	once(t, s.judge.report(t, s.cap), sure+each)
	records, committed := s.backlog(t)
	t.Logf("%d transactions, %d jobs sent of %d written; the log ends at %d, markers included, and %d are settled",
		batches+1, sure+each, (batches+2)*each, records, committed)
}

func (s *scene) batch(name string, n int) (records []*kgo.Record) {
	for i := range n {
		records = append(records, s.named(fmt.Sprint("k", i), fmt.Sprint(name, "-", i)))
	}
	return records
}

func (s *scene) transact(t *testing.T, cl *kgo.Client, how kgo.TransactionEndTry, records ...*kgo.Record) {
	t.Helper()
	begin(t, cl, records...)
	end(t, cl, how)
}

func begin(t *testing.T, cl *kgo.Client, records ...*kgo.Record) {
	t.Helper()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	put(t, cl, records...)
}

func end(t *testing.T, cl *kgo.Client, how kgo.TransactionEndTry) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := cl.EndTransaction(ctx, how); err != nil {
		t.Fatal(err)
	}
}
