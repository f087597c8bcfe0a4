package api_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/dlq"
	"dispatcher/internal/api"
	"dispatcher/internal/audit"
	"dispatcher/internal/auth"
	"dispatcher/internal/redrive"
	"dispatcher/job"
)

// letters are open dead letters; the list ends when ctx does where it hangs.
type letters struct {
	all   []deadletter.Letter
	hangs bool
	err   error

	mu    sync.Mutex
	asked dlq.Filter
}

func (l *letters) List(ctx context.Context, f dlq.Filter, each func(*deadletter.Letter) error) (t dlq.Tally, err error) {
	l.mu.Lock()
	l.asked = f
	l.mu.Unlock()
	t.Classes = map[deadletter.Class]int64{}
	for i := range l.all {
		t.Open++
		t.Classes[l.all[i].Class]++
		t.ReadTo = l.all[i].ID
		if t.Matched++; f.Limit == 0 || t.Matched <= int64(f.Limit) {
			if err := each(&l.all[i]); err != nil {
				return t, err
			}
		}
	}
	if l.hangs {
		<-ctx.Done()
		return t, ctx.Err()
	}
	return t, l.err
}

func (l *letters) filter() dlq.Filter {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked
}

func letter(offset int64, class deadletter.Class) deadletter.Letter {
	return deadletter.Letter{
		ID:     deadletter.RecordID{Topic: "jobs.dlq", Partition: 3, Offset: offset},
		Record: job.Record{Key: []byte("+15550100"), Value: []byte(`{"to":"+15550100"}`)},
		JobID:  "+15550100", Origin: deadletter.RecordID{Topic: "jobs", Partition: 3, Offset: 17},
		Class: class, Code: "400", Message: "the provider answered 400 bad request", Answer: "no such number: +15550100", Attempts: 2,
		FailedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
}

func TestDeadLettersAreListedWithoutTheirPayload(t *testing.T) {
	t.Parallel()
	l := &letters{all: []deadletter.Letter{letter(1, "permanent"), letter(2, "permanent"), letter(3, "expired")}}
	s := serveWith(t, auth.Options{Loopback: true}, api.Options{DeadLetters: l})
	o := s.must(s.get("dead-letters?limit=2&class=permanent,expired,cancelled&since=2h&topic=jobs&after=jobs.dlq/3/0"), 200,
		`"truncated":false`, `"read":3`, `"matched":3`, `"classes":{"expired":1,"permanent":2}`, `"next":"jobs.dlq/3/2"`,
		`{"id":"jobs.dlq/3/1","class":"permanent","code":"400","message":"the provider answered 400 bad request","attempts":2,`+
			`"failed_at":"2026-01-02T03:04:05Z","origin":"jobs/3/17","bytes":18}`)
	if strings.Contains(o.text, "1555") {
		t.Errorf("got a phone number in %s", o.text)
	}
	f := l.filter()
	if f.Limit != 2 || len(f.Classes) != 3 || time.Since(f.Since).Round(time.Hour) != 2*time.Hour || f.After.Partition != 3 || !slices.Equal(f.Topics, []string{"jobs"}) {
		t.Errorf("got the filter %+v", f)
	}
	o = s.must(s.get("dead-letters"), 200)
	if _, more := o.object["next"]; more || l.filter().Limit != 50 || len(o.object["letters"].([]any)) != 3 {
		t.Errorf("got %s and the filter %+v, want all letters and nothing more", o.text, l.filter())
	}
	for query, field := range map[string]string{
		"limit=101": "limit", "limit=0": "limit", "class=other": "class", "since=yesterday": "since", "since=-2h": "since", "topic=secrets": "topic", "after=3": "after",
	} {
		s.must(s.get("dead-letters?"+query), 422, `"field":"`+field+`"`)
	}
	l.err = errors.New("no broker answers")
	s.must(s.get("dead-letters"), 503, "no broker answers")
}

// A list ends after four seconds, and says where the next one goes on. Meanwhile this node makes one more, and no third.
func TestAListOfDeadLettersEndsInTime(t *testing.T) {
	t.Parallel()
	l := &letters{all: []deadletter.Letter{letter(1, "permanent")}, hangs: true}
	s := serveWith(t, auth.Options{Loopback: true}, api.Options{DeadLetters: l})
	begun := time.Now()
	answers := make(chan outcome, 3)
	for range cap(answers) {
		go func() { answers <- s.get("dead-letters") }()
	}
	s.must(<-answers, 503, "is reading dead letters for others")
	for range 2 {
		s.must(<-answers, 200, `"truncated":true`, `"next":"jobs.dlq/3/1"`, `"matched":1`)
	}
	if took := time.Since(begun); took < 4*time.Second {
		t.Errorf("got an answer after %v, want that it reads for four seconds", took)
	}
}

func TestAListOfDeadLettersThatKafkaDoesNotAnswer(t *testing.T) {
	t.Parallel()
	s := serveWith(t, auth.Options{Loopback: true}, api.Options{DeadLetters: &letters{hangs: true}})
	s.must(s.get("dead-letters"), 503, "Kafka sent no dead letter within 4s")
}

// runs are redrives that a node is asked for.
type runs struct {
	mu      sync.Mutex
	started []redrive.Request
	err     error
}

func (r *runs) Start(_ context.Context, req redrive.Request) (redrive.Run, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := req.Validate(); err != nil {
		return redrive.Run{}, err
	}
	r.started = append(r.started, req)
	return redrive.Run{ID: "r-1", Kind: req.Kind, Topic: req.Topic, By: req.By, State: redrive.Running}, r.err
}

func (r *runs) List(context.Context) ([]redrive.Run, error) { return []redrive.Run{{ID: "r-1"}}, nil }

func (r *runs) Get(_ context.Context, id string) (redrive.Run, error) {
	if id != "r-1" {
		return redrive.Run{}, redrive.ErrUnknown
	}
	return redrive.Run{ID: id, State: redrive.Done}, nil
}

func (r *runs) Stop(_ context.Context, id, by, why string) (redrive.Run, error) {
	if id != "r-1" {
		return redrive.Run{}, redrive.ErrOver
	}
	return redrive.Run{ID: id, StoppedBy: by, Why: why}, nil
}

func (r *runs) Events(_ context.Context, n int) ([]audit.Event, error) {
	return make([]audit.Event, n), nil
}

func (r *runs) last() redrive.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.started[len(r.started)-1]
}

func TestARedriveIsStartedShownAndStopped(t *testing.T) {
	t.Parallel()
	r := &runs{}
	s := serveWith(t, auth.Options{Loopback: true}, api.Options{Redrives: r})
	o := s.must(s.ask(http.MethodPost, "dead-letters/replay", `{"topic":"jobs","ids":["jobs.dlq/3/1","jobs.dlq/0/2"],"rate":12.5,"why":"fixed","by":"anna"}`), 202,
		`"id":"r-1"`, `"state":"running"`, `"by":"anna from 127.0.0.1"`)
	if at := o.header.Get("Location"); at != "/api/v1/redrives/r-1" {
		t.Errorf("got the location %q", at)
	}
	if got := r.last(); got.Kind != redrive.Replay || got.Rate != 12.5 || len(got.IDs) != 2 || got.IDs[0].Offset != 1 || got.Why != "fixed" {
		t.Errorf("got %+v", got)
	}
	s.must(s.ask(http.MethodPost, "dead-letters/drop", `{"class":["cancelled"],"since":"2h","all":true}`), 202)
	if got := r.last(); got.Kind != redrive.Drop || got.Topic != "jobs" || len(got.Classes) != 1 || time.Since(got.Since).Round(time.Hour) != 2*time.Hour {
		t.Errorf("got %+v", got)
	}
	s.must(s.ask(http.MethodPost, "dead-letters/drop", `{"all":true}`), 202)
	for body, field := range map[string]string{
		`{}`:                                     "all",
		`{"all":false}`:                          "all",
		`{"topic":"jobs"}`:                       "all",
		`{"all":true,"for":"10m"}`:               "for",
		`{"all":true,"rat":1}`:                   "rat",
		`{"all":true,"rate":"1"}`:                "rate",
		`{"all":true,"rate":-1}`:                 "rate",
		`{"all":true,"topic":"x"}`:               "topic",
		`{"class":["x"]}`:                        "class",
		`{"class":"cancelled"}`:                  "class",
		`{"since":"x"}`:                          "since",
		`{"ids":["7"]}`:                          "ids",
		`{"ids":["other.dlq/0/1"]}`:              "ids",
		`{"ids":["jobs.dlq/0/1"],"all":true}`:    "ids",
		`{"ids":["jobs.dlq/0/1"],"since":"2h"}`:  "ids",
		`{"ids":["jobs.dlq/0/1"],"by":7}`:        "by",
		`{"ids":["jobs.parked/0/1"],"rate":1.0}`: "ids",
	} {
		s.must(s.ask(http.MethodPost, "dead-letters/replay", body), 422, `"field":"`+field+`"`)
	}
	s.must(s.get("redrives"), 200, `[{"id":"r-1"`)
	s.must(s.get("redrives/r-1"), 200, `"state":"done"`)
	s.must(s.get("redrives/r-2"), 404, "no such redrive")
	s.must(s.get("redrives/history?n=2"), 200, `[{"at":`)
	s.must(s.get("redrives/history?n=0"), 422, `"field":"n"`)
	s.must(s.ask(http.MethodPost, "redrives/r-1/stop", `{"why":"too fast","by":"bert"}`), 200, `"stopped_by":"bert from 127.0.0.1"`)
	s.must(s.ask(http.MethodPost, "redrives/r-1/stop", `{"for":"1h"}`), 422, `"field":"for"`)
	s.must(s.ask(http.MethodPost, "redrives/r-2/stop", ``), 409, "is over")
	r.err = &redrive.RunningError{Run: redrive.Run{ID: "r-0", Topic: "jobs", Node: "node-2"}}
	s.must(s.ask(http.MethodPost, "dead-letters/replay", `{"all":true}`), 409, "redrive r-0 of topic jobs is running on node node-2")
	r.err = redrive.ErrEnds
	s.must(s.ask(http.MethodPost, "dead-letters/replay", `{"all":true}`), 503, "this node ends")
}

func TestANodeWithoutDeadLettersSaysSo(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, path := range []string{"dead-letters", "redrives", "redrives/r-1", "redrives/history"} {
		s.must(s.get(path), 404, `"detail":"this node does not `)
	}
	s.must(s.ask(http.MethodPost, "dead-letters/replay", `{"all":true}`), 404, "this node does not")
	s.must(s.ask(http.MethodPost, "redrives/r-1/stop", ``), 404, "this node does not")
}

// The token names who starts a run.
func TestATokenSignsItsRedrives(t *testing.T) {
	t.Parallel()
	who := callers(t)
	r := &runs{}
	s := serveWith(t, who, api.Options{Redrives: r})
	s.must(s.ask(http.MethodPost, "dead-letters/replay", `{"all":true}`), 403)
	s.token = tokenIn(t, who.Tokens[1].File)
	s.must(s.ask(http.MethodPost, "dead-letters/replay", `{"all":true,"by":"bob"}`), 422, `"field":"by"`)
	s.must(s.ask(http.MethodPost, "dead-letters/replay", `{"all":true}`), 202, `"by":"anna-operator from 127.0.0.1"`)
}
