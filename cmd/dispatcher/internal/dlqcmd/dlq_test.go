package dlqcmd

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"

	"dispatcher/cmd/dispatcher/internal/clitest"
	"dispatcher/consumer"
	"dispatcher/job"
)

// deadLetters is a cluster with a topic and its dead letters.
type deadLetters struct {
	t      *testing.T
	broker string
	env    []string
}

func newDLQ(t *testing.T, letters ...job.Record) *deadLetters {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "jobs", "jobs.dlq", "jobs.parked", "jobs.dlq.dlq", "jobs.parked.dlq", "other"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	q := &deadLetters{t: t, broker: cluster.ListenAddrs()[0]}
	q.env = []string{"DISPATCHER_KAFKA_BROKERS=" + q.broker}
	q.write("jobs.dlq", letters...)
	return q
}

func (q *deadLetters) write(topic string, letters ...job.Record) {
	q.t.Helper()
	p, err := consumer.NewProducer(consumer.ProducerOptions{Connection: consumer.Connection{Brokers: []string{q.broker}}})
	if err != nil {
		q.t.Fatal(err)
	}
	if err := p.WriteBatch(q.t.Context(), topic, letters); err != nil {
		q.t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		q.t.Fatal(err)
	}
}

func (q *deadLetters) run(args ...string) clitest.Outcome {
	return clitest.Run(q.t.Context(), New, "", q.env, append([]string{"dlq"}, args...)...)
}

func deadLetter(class, key, value string, headers ...job.Header) job.Record {
	rec := job.Record{Value: []byte(value), Headers: append([]job.Header{
		{Key: "x-original-topic", Value: []byte("jobs")},
		{Key: "x-original-partition", Value: []byte("0")},
		{Key: "x-original-offset", Value: []byte("17")},
		{Key: "x-error-class", Value: []byte(class)},
		{Key: "x-error-code", Value: []byte("503")},
		{Key: "x-error-message", Value: []byte("away\x1b[2J")},
		{Key: "x-attempt", Value: []byte("10")},
		{Key: "x-failed-at", Value: []byte("2026-01-02T03:04:05Z")},
	}, headers...)}
	if key != "" {
		rec.Key = []byte(key)
	}
	return rec
}

func someLetters() []job.Record {
	return []job.Record{
		deadLetter("exhausted", "k0", `{"id":"a","secret":"pw"}`),
		deadLetter("permanent", "k1", "text", job.Header{Key: "x-redrive", Value: []byte("2")}),
		deadLetter("exhausted", "\xff", "\x00\xff", job.Header{Key: "x-failed-at", Value: []byte("2026-01-03T00:00:00Z")}),
	}
}

func TestDLQListShowsNoPayload(t *testing.T) {
	t.Parallel()
	q := newDLQ(t, someLetters()...)
	out := q.run("list")
	out.MustPrint(t, "jobs.dlq/0/0  2026-01-02T03:04:05Z  exhausted  503   10        0         k0    a          jobs/0/17  away\\x1b[2J",
		"jobs.dlq/0/1", "0xff", "3 of 3 open dead letters match")
	if strings.Contains(out.Out, "secret") || strings.Contains(out.Out, "\x1b") {
		t.Errorf("got a payload or a control character in %q", out.Out)
	}
	q.run("list", "--reason", "exhausted", "--limit", "1").MustPrint(t, "2 of 3 open dead letters match, the first 1 are shown")
	q.run("list", "--reason", "exausted").MustFail(t, `--reason "exausted" is no class of a dead letter; the classes are decode,`)
	q.run("list", "--reason", "expired").MustPrint(t, "0 of 3 open dead letters match; their classes are exhausted (2), permanent (1)")
	q.run("list", "--since", "2026-01-03").MustPrint(t, "jobs.dlq/0/2", "1 of 3")
	q.run("list", "--until", "2026-01-02T03:04:05Z").MustPrint(t, "0 of 3")
	q.run("list", "--since", "1h").MustPrint(t, "0 of 3")
	q.run("list", "--topic", "jobs.dlq", "--key", "k1").MustPrint(t, "jobs.dlq/0/1", "1 of 3")
}

func TestDLQListInJSON(t *testing.T) {
	t.Parallel()
	q := newDLQ(t, someLetters()...)
	out := q.run("list", "--json")
	lines := strings.Split(strings.TrimSpace(out.Out), "\n")
	if out.Err != nil || len(lines) != 3 || !strings.Contains(out.ErrOut, "3 of 3 open dead letters match") {
		t.Fatalf("got %v\n%s\n%s", out.Err, out.Out, out.ErrOut)
	}
	var got letterState
	if err := json.Unmarshal([]byte(lines[1]), &got); err != nil {
		t.Fatal(err)
	}
	key := "k1"
	want := letterState{
		ID: "jobs.dlq/0/1", FailedAt: "2026-01-02T03:04:05.000000Z", Class: "permanent", Code: "503", Message: "away\x1b[2J",
		Attempts: 10, Redrives: 2, Key: &key, Job: "jobs/0/17", Origin: "jobs/0/17", Bytes: 4,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDLQShow(t *testing.T) {
	t.Parallel()
	q := newDLQ(t, append(someLetters(), deadLetter("exhausted", "", strings.Repeat("x", 70_000)))...)
	q.run("show", "jobs.dlq/0/0").MustPrint(t, "letter jobs.dlq/0/0: open", "job       a\n", "x-error-code", "value: 24 bytes\n{\"id\":\"a\",\"secret\":\"pw\"}\n")
	q.run("show", "jobs.dlq/0/2").MustPrint(t, "key       0xff\n", "value: 2 bytes\n00000000  00 ff")
	q.run("show", "jobs.dlq/0/3").MustPrint(t, "value: 70000 bytes", "… and 4464 bytes more; --raw writes all")
	if out := q.run("show", "jobs.dlq/0/2", "--raw"); out.Err != nil || out.Out != "\x00\xff" {
		t.Errorf("got %v, %q", out.Err, out.Out)
	}
	q.run("show", "jobs.dlq/0/0", "--json").MustPrint(t, `"settled":false`, `{"name":"x-error-class","value":"exhausted"}`, `"value":"{\"id\":\"a\",\"secret\":\"pw\"}"`)
	q.run("show", "jobs.dlq/0/2", "--json").MustPrint(t, `"value_hex":"00ff"`, `"key_hex":"ff"`)
	q.run("drop", "jobs.dlq/0/2").MustPrint(t, "dropped 1 dead letters")
	q.run("show", "jobs.dlq/0/2").MustPrint(t, "letter jobs.dlq/0/2: settled")
	q.run("show", "jobs.dlq/0/9").MustFail(t, "dlq show: letter jobs.dlq/0/9 does not exist")
	q.run("show", "x").MustFail(t, `id: "x": must be topic/partition/offset`)
	q.run("show", "jobs.dlq/0/0", "--raw", "--json").MustFail(t, "exclude each other")
}

// The exit status is 0 only if all that was asked for was done.
func TestDLQReplayAndDrop(t *testing.T) {
	t.Parallel()
	q := newDLQ(t, append(someLetters(), deadLetter("exhausted", "", "part", job.Header{Key: "x-truncated", Value: []byte("true")}))...)
	dry := q.run("replay", "--reason", "exhausted", "--dry-run")
	dry.MustFail(t, "1 dead letters are left")
	if !strings.Contains(dry.Out, "would replay 2 dead letters; nothing was changed (3 match, of 4 open") {
		t.Errorf("got %s", dry.Out)
	}
	q.run("replay", "--key", "k0", "--dry-run").MustPrint(t, "would replay 1 dead letters; nothing was changed")
	if got := clitest.LastOffset(t, q.broker, "jobs"); got != 0 {
		t.Fatalf("a dry run has written %d jobs", got)
	}
	out := q.run("replay", "--reason", "exhausted", "--json")
	out.MustFail(t, "dlq replay: 1 dead letters are left")
	var sum settleState
	if err := json.Unmarshal([]byte(out.Out), &sum); err != nil {
		t.Fatal(err)
	}
	want := settleState{
		Command: "replay", Open: 4, Matched: 3, Done: 2, Left: 1, Truncated: 1, SettledBefore: []string{}, Missing: []string{},
		Notes: []string{"jobs.dlq/0/3 was truncated because of its size, and holds only a part of the record jobs/0/17"}, Error: "dlq replay: 1 dead letters are left",
	}
	if diff := cmp.Diff(want, sum); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	q.run("replay", "jobs.dlq/0/1", "--to", "other").MustPrint(t, "replayed 1 dead letters (1 match, of 1 open")
	again := q.run("replay", "jobs.dlq/0/1", "jobs.dlq/0/77")
	again.MustFail(t, "2 dead letters are left")
	if !strings.Contains(again.Out, "left: 1 that were settled before: jobs.dlq/0/1") || !strings.Contains(again.Out, "left: 1 that do not exist: jobs.dlq/0/77") {
		t.Errorf("got %s", again.Out)
	}
	q.run("drop").MustFail(t, "give --all")
	q.run("drop", "--all", "--key", "x").MustFail(t, "--all excludes")
	q.run("drop", "--all").MustPrint(t, "dropped 1 dead letters (1 match, of 1 open")
	q.run("list").MustPrint(t, "0 of 0 open dead letters match")
	q.run("replay", "--all").MustPrint(t, "replayed 0 dead letters")
	if jobs, other := clitest.LastOffset(t, q.broker, "jobs"), clitest.LastOffset(t, q.broker, "other"); jobs != 2 || other != 1 {
		t.Errorf("got %d jobs and %d others, want 2 and 1", jobs, other)
	}
}

// A dry drop says what it would do, and drops nothing.
func TestDLQDryDropDropsNothing(t *testing.T) {
	t.Parallel()
	q := newDLQ(t, someLetters()...)
	q.run("drop", "--all", "--dry-run").MustPrint(t, "would drop 3 dead letters; nothing was changed (3 match, of 3 open")
	q.run("drop", "jobs.dlq/0/1", "--dry-run").MustPrint(t, "would drop 1 dead letters; nothing was changed")
	q.run("show", "jobs.dlq/0/1").MustPrint(t, "letter jobs.dlq/0/1: open")
	q.run("drop", "--all").MustPrint(t, "dropped 3 dead letters (3 match, of 3 open")
}

// Parked jobs are looked at and settled as dead letters are, and apart from them.
func TestDLQParked(t *testing.T) {
	t.Parallel()
	q := newDLQ(t, someLetters()...)
	q.write("jobs.parked", deadLetter("unknown", "p", "may be done"), deadLetter("unknown", "q", "may be done as well"))
	q.run("list", "--parked").MustPrint(t, "jobs.parked/0/0", "unknown", "2 of 2 open dead letters match")
	q.run("show", "jobs.parked/0/0").MustPrint(t, "may be done")
	q.run("replay", "jobs.parked/0/0").MustPrint(t, "replayed 1 dead letters (1 match, of 1 open")
	q.run("drop", "--parked").MustFail(t, "give --all")
	q.run("drop", "--parked", "--all").MustPrint(t, "dropped 1 dead letters (1 match, of 1 open")
	q.run("list").MustPrint(t, "3 of 3 open dead letters match")
	if jobs := clitest.LastOffset(t, q.broker, "jobs"); jobs != 1 {
		t.Errorf("got %d jobs, want the one that was replayed", jobs)
	}
}

// --parked alone decides which letters are meant. The name of the other topic is a slip that must settle nothing.
func TestLawOnlyTheLettersOfTheNamedTopicAreSettled(t *testing.T) {
	t.Parallel()
	q := newDLQ(t, someLetters()...)
	q.write("jobs.parked", deadLetter("unknown", "p", "may be done"))
	for _, verb := range []string{"list", "replay", "drop"} {
		q.run(verb, "--topic", "jobs.parked").MustFail(t, `--topic "jobs.parked" is a topic of parked jobs: give --parked as well, or --topic jobs for the dead letters`)
		q.run(verb, "--parked", "--topic", "jobs.dlq").MustFail(t, `--topic "jobs.dlq" is a topic of dead letters: leave out --parked, or give --topic jobs for the parked jobs`)
	}
	q.run("list").MustPrint(t, "3 of 3 open dead letters match")
	q.run("list", "--parked").MustPrint(t, "1 of 1 open dead letters match")
	q.run("drop", "--parked", "--topic", "jobs.parked").MustPrint(t, "dropped 1 dead letters (1 match, of 1 open")
	q.run("drop", "--topic", "jobs.dlq").MustPrint(t, "dropped 3 dead letters (3 match, of 3 open")
}

// A job topic may be called as a topic of letters is. No command takes its jobs for letters.
func TestLawJobsAreNoLetters(t *testing.T) {
	t.Parallel()
	q := newDLQ(t, someLetters()...)
	q.write("jobs.parked", someLetters()...)
	q.write("jobs.dlq.dlq", deadLetter("exhausted", "", "x"))
	q.write("jobs.parked.dlq", deadLetter("exhausted", "", "x"), deadLetter("exhausted", "", "y"))
	q.env = append(q.env, "DISPATCHER_KAFKA_TOPICS=jobs.dlq,jobs.parked")
	const refused = `topic: "jobs.dlq": is a topic of jobs (kafka.topics or kafka.lanes), so it holds no dead letters; those of its jobs are on jobs.dlq.dlq`
	for _, verb := range []string{"list", "replay", "drop"} {
		q.run(verb, "--topic", "jobs").MustFail(t, refused)
		q.run(verb, "--topic", "jobs", "--parked").MustFail(t, `topic: "jobs.parked": is a topic of jobs`)
	}
	for _, verb := range []string{"show", "replay", "drop"} {
		q.run(verb, "jobs.dlq/0/0").MustFail(t, refused)
	}
	q.run("list", "--topic", "jobs.dlq").MustPrint(t, "1 of 1 open dead letters match")
	q.run("drop", "--topic", "jobs.dlq").MustPrint(t, "dropped 1 dead letters (1 match, of 1 open")
	q.run("drop", "--topic", "jobs.parked").MustPrint(t, "dropped 2 dead letters (2 match, of 2 open")
	q.env = q.env[:1]
	q.run("list").MustPrint(t, "3 of 3 open dead letters match") // the jobs: nothing has settled them
	q.run("list", "--parked").MustPrint(t, "3 of 3 open dead letters match")
}

// A shell gives an empty value for a variable that is not set. It must not select all dead letters.
func TestLawAnEmptyFlagSelectsNoDeadLetters(t *testing.T) {
	t.Parallel()
	q := newDLQ(t, someLetters()...)
	for _, verb := range []string{"list", "replay", "drop"} {
		for _, flag := range []string{"--topic", "--reason", "--since", "--until"} {
			q.run(verb, flag, "").MustFail(t, flag+`: "": must not be empty`)
			q.run(verb, flag, "", "--key", "k1").MustFail(t, flag+`: "": must not be empty`)
		}
	}
	q.run("replay", "--all", "--to", "").MustFail(t, `--to: "": must not be empty`)
	q.run("drop", "--limit", "0").MustFail(t, "give --all")
	q.run("list", "--limit", "0").MustPrint(t, "3 of 3 open dead letters match")
	q.run("drop", "--all", "--limit", "0").MustPrint(t, "dropped 3 dead letters")
}

func TestDLQSlips(t *testing.T) {
	t.Parallel()
	q := newDLQ(t)
	for _, row := range []struct {
		args []string
		want string
	}{
		{nil, "dispatcher dlq: name a subcommand: list, show, replay, drop"},
		{[]string{"lst"}, `unknown command "lst"`},
		{[]string{"list", "jobs.dlq/0/1"}, "unknown command"},
		{[]string{"list", "--since", "yesterday"}, `--since "yesterday": must be a time`},
		{[]string{"list", "--since", "1h", "--until", "2h"}, "is not before --until"},
		{[]string{"list", "--limit", "-1"}, "--limit -1"},
		{[]string{"list", "--topic", "none"}, "topic none.dlq does not exist"},
		{[]string{"list", "--topic", "a b"}, `topic: "a b.dlq"`},
		{[]string{"replay", "jobs.dlq/0/1", "--reason", "x", "--limit", "1"}, "leave out --reason, --limit"},
		{[]string{"replay", "--rate", "-1"}, "--rate: -1: must be at least 0.01"},
		{[]string{"replay"}, "dlq replay: name dead letters, give a filter, or give --all"},
		{[]string{"replay", "--all", "--limit", "1"}, "dlq replay: --all excludes ids and filters"},
		{[]string{"replay", "--reason", "permament"}, `--reason "permament" is no class of a dead letter; the classes are decode, unsupported, permanent, exhausted,`},
		{[]string{"replay", "--all", "--to", "a b"}, `to: "a b"`},
		{[]string{"drop", "jobs/0/1"}, "is not on a dead-letter topic"},
	} {
		q.run(row.args...).MustFail(t, row.want)
	}
}

func TestMoments(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"": {}, "2h": now.Add(-2 * time.Hour), "2026-01-01": time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		"2026-01-01T01:00:00+01:00": time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		if got, err := moment("since", text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
	}
}
