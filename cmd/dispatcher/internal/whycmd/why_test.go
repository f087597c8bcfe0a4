package whycmd

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"dispatcher/cmd/dispatcher/internal/clitest"
	"dispatcher/consumer"
	"dispatcher/internal/embedded"
	"dispatcher/internal/provider"
	"dispatcher/internal/why"
	"dispatcher/job"
)

const twoLimits = `
limits:
  - {name: account, cap: 100, window: 1s, guard: 60ms, lateness: 50ms} # the embedded Redis is slow under the race detector
  - {name: recipient, key: job.json.to, when: 'job.json.to == "anna"', cap: 1, window: 1m}
`

// scene is a fleet of two nodes on embedded parts.
type scene struct {
	parts *embedded.Parts
	args  []string // of the command
}

// newScene starts a fleet whose limit recipient lets one job a minute pass to each.
func newScene(t *testing.T) *scene {
	t.Helper()
	file := clitest.WriteFile(t, "dispatcher.yaml", twoLimits)
	parts, err := embedded.New(embedded.Options{Partitions: 2, File: file})
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{parts: parts, args: []string{"-c", file}}
	ctx, cancel := context.WithCancel(t.Context())
	if err := parts.Provider.Up(ctx); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 2)
	go func() { ended <- parts.Run(ctx) }()
	fleet, err := embedded.NewFleet(parts, 2, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	fctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- fleet.Run(fctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	clitest.Await(t, time.Minute, "both nodes work", func() bool { return fleet.Working() == 2 })
	return s
}

// enqueue writes jobs to a partition, each to a recipient.
func (s *scene) enqueue(t *testing.T, ids ...string) {
	t.Helper()
	p, err := consumer.NewProducer(consumer.ProducerOptions{Connection: consumer.Connection{Brokers: s.parts.Brokers()}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	var all []job.Record
	for _, id := range ids {
		to, _, _ := strings.Cut(id, "-")
		all = append(all, job.Record{Key: []byte(to), Value: fmt.Appendf(nil, `{"id":%q,"to":%q}`, id, to)})
	}
	if err := p.WriteBatch(t.Context(), "jobs", all); err != nil {
		t.Fatal(err)
	}
}

func (s *scene) why(t *testing.T, args ...string) clitest.Outcome {
	t.Helper()
	all := append([]string{"why"}, s.args...)
	for _, one := range s.parts.Settings() {
		all = append(all, "--set", one)
	}
	return clitest.Run(t.Context(), New, "", nil, append(all, args...)...)
}

func TestWhyNamesWhatAJobWaitsFor(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.enqueue(t, "anna-1", "anna-2", "bert-1") // calls to anna may have been made before the fleet knew the limit
	clitest.Await(t, time.Minute, "the first job waits", func() bool {
		return s.why(t, "anna-1").Err == nil && strings.Contains(s.why(t, "anna-1").Out, "waits for a limit")
	})
	s.why(t, "anna-1").MustPrint(t, "job anna-1 at jobs/", "the limit recipient does not let it pass until 20")
	s.why(t, "anna-2").MustPrint(t, "waits for an earlier job of its key or partition", "has job anna-1 at offset ", " go first: the limit recipient does not let it pass until 20")
	s.why(t, "recipient").MustPrint(t, "limit recipient: 1 job waits for it", "node-1", "node-2")
	s.why(t, "account").MustPrint(t, "limit account: 0 jobs wait for it")
	s.why(t, "nobody-1").MustFail(t, "none of 2 nodes holds the job nobody-1")
	s.why(t, "account", "--job").MustFail(t, "holds the job account")
	s.why(t).MustFail(t, "name the job or limit")

	var shown why.Report
	o := s.why(t, "anna-2", "--json")
	o.MustPrint(t)
	if err := json.Unmarshal([]byte(o.Out), &shown); err != nil {
		t.Fatal(err)
	}
	if len(shown.Jobs) != 1 || shown.Nodes != 2 || len(shown.Silent) != 0 {
		t.Fatalf("got %+v, want one job of a fleet of two nodes", shown)
	}
	second := shown.Jobs[0]
	if second.WaitsFor != "order" || second.Behind == nil || second.Behind.Limit != "recipient" || second.Behind.Until == nil {
		t.Errorf("got %+v, want it behind a job that waits for the limit recipient", second)
	}
	s.why(t, fmt.Sprintf("jobs/%d/%d", second.Partition, second.Offset)).MustPrint(t, "job anna-2")
	s.why(t, fmt.Sprintf("jobs/%d/99", second.Partition)).MustPrint(t, "is not in the log: the partition ends at offset ")
	clitest.Await(t, time.Minute, "the job without that limit is settled", func() bool { return s.settledSome(t) })
	s.why(t, "jobs/77/0").MustFail(t, "none of 2 nodes holds")
}

func TestAFleetWithoutNodesSaysSo(t *testing.T) {
	t.Parallel()
	redis := []string{"--set", "redis.addrs=" + miniredis.RunT(t).Addr(), "--set", "sender.http.url=http://127.0.0.1:1/", "--set", "kafka.brokers=127.0.0.1:1"}
	ask := func(args ...string) clitest.Outcome {
		return clitest.Run(t.Context(), New, "", nil, append([]string{"why", "order-17"}, append(redis, args...)...)...)
	}
	ask().MustFail(t, "no node of namespace default works: its jobs wait in Kafka")
	ask("--set", "limits.0.scope=node").MustFail(t, "limits.0.scope: node")
}

// settledSome tells whether the command calls one of three jobs in two partitions settled.
func (s *scene) settledSome(t *testing.T) bool {
	t.Helper()
	for partition := range 2 {
		for offset := range 3 {
			if o := s.why(t, fmt.Sprintf("jobs/%d/%d", partition, offset)); strings.Contains(o.Out, "is settled") {
				return true
			}
		}
	}
	return false
}

// notAllSearched asks for the place of a dead letter without Kafka: the job is settled, and may still be an open dead letter.
func (s *scene) notAllSearched(t *testing.T) {
	t.Helper()
	const noKafka, want = "kafka.brokers=127.0.0.1:1", "not all dead letters were searched: "
	for _, place := range []string{"jobs/0/0", "jobs/1/0"} { // the job is at one of them
		o := s.why(t, place, "--set", noKafka)
		if strings.Contains(o.Out, "is not in the log") {
			continue
		}
		if !strings.Contains(o.Out, "is a dead letter, or") {
			t.Errorf("got %q, want that it may be a dead letter", o.Out)
		}
		o.MustFail(t, want)
		o = s.why(t, place, "--json", "--set", noKafka)
		o.MustFail(t, want)
		var shown report
		if err := json.Unmarshal([]byte(o.Out), &shown); err != nil || shown.Progress == nil || shown.Unsearched == "" {
			t.Errorf("got %s and %v, want how far its partition is, and why not all was searched", o.Out, err)
		}
		return
	}
	t.Error("got both places as not in the log, want one as settled")
}

// A job that no node holds may be a dead letter: the command says which, and why, by the job's id as by its place.
func TestADeadLetterIsFound(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.parts.Provider.Behave(provider.Behaviour{Status: http.StatusBadRequest})
	s.enqueue(t, "carl-1")
	clitest.Await(t, time.Minute, "the command says so", func() bool {
		return strings.Contains(s.why(t, "carl-1").Out, "job carl-1 is the dead letter jobs.dlq/")
	})
	s.why(t, "carl-1").MustPrint(t, "after 1 call, class permanent, 400")
	var shown report
	o := s.why(t, "carl-1", "--json")
	o.MustPrint(t)
	if err := json.Unmarshal([]byte(o.Out), &shown); err != nil {
		t.Fatal(err)
	}
	if shown.Dead == nil || shown.Dead.Class != "permanent" || shown.Dead.Attempts != 1 {
		t.Errorf("got %+v, want a dead letter after one call", shown.Dead)
	}
	s.notAllSearched(t)
	var places []string
	for partition := range 2 {
		places = append(places, s.why(t, fmt.Sprintf("jobs/%d/0", partition)).Out)
	}
	if !strings.Contains(strings.Join(places, ""), "is the dead letter jobs.dlq/") {
		t.Errorf("got %q for the places, want that one is the dead letter's", places)
	}
	s.why(t, "nobody-1").MustFail(t, "no open dead letter is of it")
}
