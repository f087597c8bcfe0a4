package consumer_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dispatcher/consumer"
	"dispatcher/job"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A commit that the group refuses for good ends the assignment at once. The member joins
// again, and jobs that were not committed are handed out again.
func TestARefusedCommitJoinsAgain(t *testing.T) {
	t.Parallel()
	for _, e := range []*kerr.Error{kerr.IllegalGeneration, kerr.UnknownMemberID} {
		t.Run(e.Message, func(t *testing.T) {
			t.Parallel()
			bubble(t, 1, func(w *fleet) {
				w.produce("jobs", numbered(0, 10)...)
				o := w.options()
				o.SlotTime = time.Minute
				n := w.start(o, nil)
				held := n.holding(10)
				fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: e})
				held[0].Done(consumer.Outcome{})
				w.until("the commit is refused", func() bool { return fault.Hits() == 1 })
				<-held[1].Context().Done()
				begun := time.Now()
				synctest.Wait()
				if held[1].Calls().Err() == nil {
					t.Error("jobs that another member may call go on to be called")
				}
				for _, d := range held[1:5] {
					d.Done(consumer.Outcome{}) // too late
				}
				again := n.holding(10)
				if took := time.Since(begun); took > time.Second {
					t.Errorf("joined again after %v, want no wait for calls", took)
				}
				for _, d := range slices.Concat(held[5:], again) {
					d.Done(consumer.Outcome{})
				}
				w.ok(n.end())
				if offset, _ := w.committed("jobs", 0); offset != 10 {
					t.Errorf("got offset %d committed, want 10", offset)
				}
			})
		})
	}
}

// Other errors of a commit do not end the assignment; the next commit has all offsets.
func TestFailedCommitIsTriedAgain(t *testing.T) {
	t.Parallel()
	for _, e := range []*kerr.Error{kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.RebalanceInProgress, kerr.OffsetMetadataTooLarge} {
		t.Run(e.Message, func(t *testing.T) {
			t.Parallel()
			bubble(t, 1, func(w *fleet) {
				w.produce("jobs", numbered(0, 10)...)
				n := w.start(w.options(), nil)
				held := n.holding(10)
				w.until("the first commit", func() bool { offset, _ := w.committed("jobs", 0); return offset == 0 })
				fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: e, Count: 2})
				for _, d := range held {
					d.Done(consumer.Outcome{})
				}
				w.until("the commit", func() bool { offset, _ := w.committed("jobs", 0); return offset == 10 })
				if fault.Hits() != 2 || held[0].Context().Err() != nil {
					t.Errorf("got %d refusals and context error %v, want 2 and none", fault.Hits(), held[0].Context().Err())
				}
				w.ok(n.end())
			})
		})
	}
}

// A fault while fetching is no reason to leave the group.
func TestFetchFaultsAreTriedAgain(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "jobs", Err: kerr.NotLeaderForPartition, Count: 10})
		w.produce("jobs", numbered(0, 10)...)
		n := w.start(w.options(), settled)
		w.until("all seen", func() bool { return len(n.values()) == 10 })
		if fault.Hits() != 10 {
			t.Errorf("got %d faults, want 10", fault.Hits())
		}
		w.ok(n.end())
	})
}

// A partition that gets another leader for some seconds delays a batch, which is written then.
func TestABatchWaitsForALeader(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "jobs", Err: kerr.NotLeaderForPartition, Count: 10})
		began := time.Now()
		w.produce("jobs", numbered(0, 10)...)
		if took := time.Since(began); fault.Hits() != 10 || took < 5*time.Second {
			t.Errorf("got %d refusals in %v, want 10 in some seconds", fault.Hits(), took)
		}
	})
}

// While no more jobs may be in flight the node stays a member: heartbeats go on.
func TestWaitingKeepsTheMembership(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 5000)...)
		n := w.start(w.options(), nil)
		held := n.holding(256)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if err := held[0].Context().Err(); err != nil || !n.c.Status().Joined {
			t.Errorf("after ten minutes: got context error %v and joined %v, want none and true", err, n.c.Status().Joined)
		}
		go n.settleHeld()
		for _, d := range held {
			d.Done(consumer.Outcome{})
		}
		w.until("all seen", func() bool { return len(n.values()) == 5000 })
		w.ok(n.end())
	})
}

// The broker may come up after the node.
func TestWaitsForABroker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, err := consumer.New(consumer.Options{
			Connection: consumer.Connection{Brokers: []string{broker}, Dial: (&kfake.VirtualNetwork{}).DialContext},
			Group:      "g", Topics: []string{"jobs"},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if err := c.Run(ctx); err != nil {
			t.Errorf("got %v from Run, want nil", err)
		}
		if _, open := <-c.Ready(); open || c.Status().LastError == nil {
			t.Errorf("ready open %v, last error %v; want closed and an error", open, c.Status().LastError)
		}
	})
}

func TestMetricsAndStatus(t *testing.T) {
	t.Parallel()
	bubble(t, 2, func(w *fleet) {
		w.produce("jobs", numbered(0, 100)...)
		o := w.options()
		reg := prometheus.NewRegistry()
		o.Registerer = reg
		n := w.start(o, nil)
		held := n.holding(100)
		s := n.c.Status()
		if !s.Joined || s.Lag != 100 || s.InFlight != 100 || len(s.Partitions) != 2 || s.LastError != nil {
			t.Errorf("got status %+v, want joined, a lag of 100 and 100 in flight in 2 partitions", s)
		}
		if got := gather(t, reg); got["dispatcher_consumer_lag_records"] != 100 || got["dispatcher_consumer_in_flight_jobs"] != 100 ||
			got["dispatcher_consumer_rebalances_total"] != 1 || got["dispatcher_consumer_joined"] != 1 || got["dispatcher_consumer_open_offsets"] != 100 {
			t.Errorf("got metrics %v, want a lag of 100, 100 in flight and 100 open, joined, one rebalance", got)
		}
		for _, d := range held {
			d.Done(consumer.Outcome{})
		}
		w.until("no lag is left", func() bool { return n.c.Status().Lag == 0 })
		w.ok(n.end())
		if s := n.c.Status(); s.Joined || len(s.Partitions) != 0 || s.InFlight != 0 {
			t.Errorf("after the end: got status %+v, want not joined, no partition and none in flight", s)
		}
	})
}

// gather sums the series of each name.
func gather(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			sums[f.GetName()] += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return sums
}

// onLoopback starts a cluster on loopback, for clients that can't live in a bubble.
func onLoopback(t *testing.T, opts ...kfake.Opt) string {
	t.Helper()
	c, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1), kfake.SeedTopics(1, "jobs"))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.ListenAddrs()[0]
}

func TestWrongPassword(t *testing.T) {
	t.Parallel()
	addr := onLoopback(t, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "u", "right"), kfake.Superuser("PLAIN", "u", "right"))
	for _, mechanism := range []string{"plain", "scram-sha-256"} {
		conn := consumer.Connection{Brokers: []string{addr}, SASL: &consumer.SASL{Mechanism: mechanism, Login: consumer.FixedLogin("u", "wrong-secret")}}
		c, err := consumer.New(consumer.Options{Connection: conn, Group: "g", Topics: []string{"jobs"}})
		if err != nil {
			t.Fatal(err)
		}
		err = c.Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "SASL Authentication Failed") || strings.Contains(err.Error(), "wrong-secret") {
			t.Errorf("%s: got %v, want a readable error without the password", mechanism, err)
		}
	}
}

func TestRightPassword(t *testing.T) {
	t.Parallel()
	addr := onLoopback(t, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "u", "right"))
	conn := consumer.Connection{Brokers: []string{addr}, SASL: &consumer.SASL{Mechanism: "SCRAM-SHA-512", Login: consumer.FixedLogin("u", "right")}}
	consumeReal(t, conn, []string{"a"}, func() { write(t, conn, "a") })
}

// Records are written over TLS and with each mechanism of SASL, as they are read.
func TestWritingOverTLSAndSASL(t *testing.T) {
	t.Parallel()
	web := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	t.Cleanup(web.Close)
	roots := web.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		addr := onLoopback(t, kfake.TLS(&tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12}),
			kfake.EnableSASL(), kfake.Superuser(mechanism, "u", "right"))
		conn := consumer.Connection{
			Brokers: []string{addr}, TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			SASL: &consumer.SASL{Mechanism: mechanism, Login: consumer.FixedLogin("u", "right")},
		}
		consumeReal(t, conn, []string{"a"}, func() { write(t, conn, "a") })
	}
}

// consumeReal runs a consumer until it has seen as many jobs as are wanted.
func consumeReal(t *testing.T, conn consumer.Connection, want []string, produce func()) {
	t.Helper()
	produce()
	c, err := consumer.New(consumer.Options{Connection: conn, Group: "g", Topics: []string{"jobs"}, CreateTopics: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	var got []string
	for d := range taken(c) {
		got = append(got, string(d.Job.Value))
		d.Done(consumer.Outcome{})
		if len(got) == len(want) {
			stop()
		}
	}
	stop()
	if err := <-ended; err != nil || strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("got %v and error %v, want %v", got, err, want)
	}
}

func write(t *testing.T, conn consumer.Connection, values ...string) {
	t.Helper()
	p, err := consumer.NewProducer(consumer.ProducerOptions{Connection: conn})
	if err != nil {
		t.Fatal(err)
	}
	var records []job.Record
	for _, v := range values {
		records = append(records, job.Record{Value: []byte(v)})
	}
	if err := p.WriteBatch(t.Context(), "jobs", records); err != nil {
		t.Error(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// Jobs of a transaction that was aborted are never handed out, those of one
// that was committed are, also by the same producer.
func TestAbortedTransactions(t *testing.T) {
	t.Parallel()
	addr := onLoopback(t)
	conn := consumer.Connection{Brokers: []string{addr}}
	want := []string{"plain", "c1", "c4"}
	for i := range 2000 {
		want = append(want, "late"+strconv.Itoa(i))
	}
	consumeReal(t, conn, want, func() {
		write(t, conn, "plain")
		cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.TransactionalID("tx"), kgo.DefaultProduceTopic("jobs"))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		for i, commit := range []bool{false, true, false, false, true} {
			transaction(t, cl, "c"+strconv.Itoa(i), commit)
		}
		write(t, conn, want[3:]...)
	})
}

func transaction(t *testing.T, cl *kgo.Client, value string, commit bool) {
	t.Helper()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), kgo.StringRecord(value)).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := cl.EndTransaction(t.Context(), kgo.TransactionEndTry(commit)); err != nil {
		t.Fatal(err)
	}
}
