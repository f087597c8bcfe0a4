package redrive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/dlq"
	"dispatcher/internal/audit"
	"dispatcher/internal/background"
	"dispatcher/internal/redisclient"
)

func newRedis(t *testing.T) (redis.UniversalClient, *miniredis.Miniredis) {
	t.Helper()
	server := miniredis.RunT(t)
	rdb := redisclient.New(redisclient.Options{Addrs: []string{server.Addr()}})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb, server
}

// steps is a runner whose test says what happens.
type steps struct {
	began chan Request
	now   chan Progress // the runner says this
	end   chan error    // it ends with this
}

func newSteps() *steps {
	return &steps{began: make(chan Request, 8), now: make(chan Progress), end: make(chan error)}
}

func (s *steps) run(ctx context.Context, r Request, now func(Progress)) (last Progress, err error) {
	s.began <- r
	for {
		select {
		case last = <-s.now:
			now(last)
		case err := <-s.end:
			return last, err
		case <-ctx.Done():
			return last, ctx.Err()
		}
	}
}

// onNode is a service that runs, and its runner.
func onNode(t *testing.T, rdb redis.UniversalClient, name string) (s *Service, r *steps, stop func()) {
	t.Helper()
	r = newSteps()
	s = New(Options{Store: NewStore(rdb, "ns"), Runner: r.run, Node: name, Logger: slog.New(slog.DiscardHandler)})
	return s, r, background.Run(t, s.Run)
}

func replay() Request {
	return Request{Kind: Replay, Topic: "jobs", Rate: 20, By: "anna", Why: "fixed"}
}

func (s *Service) mustStart(t *testing.T, r Request) Run {
	t.Helper()
	run, err := s.Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// await waits until a run is as it should be, for 20 seconds at most.
func await(t *testing.T, s *Store, id string, is func(Run) bool) Run {
	t.Helper()
	var run Run
	for range 2000 {
		var err error
		if run, err = s.Get(t.Context(), id); err == nil && is(run) {
			return run
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("got %+v after 20 seconds", run)
	return run
}

func in(state State) func(Run) bool { return func(r Run) bool { return r.State == state } }

// texts are the events, the oldest first.
func texts(t *testing.T, s *Store) (all []string) {
	t.Helper()
	events, err := s.Events(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range slices.Backward(events) {
		if e.At.IsZero() {
			t.Errorf("got no time of %+v", e)
		}
		all = append(all, e.By+": "+e.Text)
	}
	return all
}

func TestARunIsShownUntilItsEndAndAfter(t *testing.T) {
	t.Parallel()
	rdb, _ := newRedis(t)
	s, r, _ := onNode(t, rdb, "node-1")
	since := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	run := s.mustStart(t, Request{Kind: Replay, Topic: "jobs", Classes: []deadletter.Class{"permanent"}, Since: since, Rate: 20, By: "anna", Why: "fixed"})
	if asked := <-r.began; asked.Topic != "jobs" || asked.Rate != 20 {
		t.Errorf("got %+v at the runner", asked)
	}
	if got, err := s.Get(t.Context(), run.ID); err != nil || got.State != Running || got.Node != "node-1" || got.By != "anna" || got.Why != "fixed" || !got.Since.Equal(since) {
		t.Errorf("got %+v and %v right after the start", got, err)
	}
	r.now <- Progress{Matched: 10, Done: 4, Read: 12, ToRead: 40}
	await(t, s.Store, run.ID, func(r Run) bool { return r.State == Running && r.Done == 4 && r.ToRead == 40 })
	r.now <- Progress{Matched: 30, Done: 29, Left: 1, Read: 40, ToRead: 40, Notes: []string{"one was truncated"}}
	r.end <- nil
	got := await(t, s.Store, run.ID, in(Done))
	if got.Done != 29 || got.Left != 1 || got.Ended.Before(got.Started) || len(got.Notes) != 1 || got.Error != "" {
		t.Errorf("got %+v at the end", got)
	}
	want := []string{
		"anna: " + run.ID + " started, replay letters of class permanent and since ",
		"anna: " + run.ID + " ended, done: 29 of 30 letters",
	}
	for i, text := range texts(t, s.Store) {
		if i >= len(want) || !strings.HasPrefix(text, want[i]) {
			t.Errorf("got the event %q, want %q", text, want)
		}
	}
	// The next one begins, and fails.
	run = s.mustStartSoon(t, Request{Kind: Drop, Topic: "jobs", IDs: make([]deadletter.RecordID, 3), By: "bert"})
	r.end <- errors.New("no such topic")
	if got := await(t, s.Store, run.ID, in(Failed)); got.Error != "no such topic" || got.IDs != 3 {
		t.Errorf("got %+v of a run that failed", got)
	}
}

// mustStartSoon starts a run when the one before, whose end is written already, is over.
func (s *Service) mustStartSoon(t *testing.T, r Request) Run {
	t.Helper()
	for {
		run, err := s.Start(t.Context(), r)
		if _, busy := errors.AsType[*RunningError](err); !busy {
			if err != nil {
				t.Fatal(err)
			}
			return run
		}
		time.Sleep(time.Millisecond)
	}
}

// A node has one run, and so has a topic. Whoever asks for another one learns which it is.
func TestOneRunAtATime(t *testing.T) {
	t.Parallel()
	rdb, _ := newRedis(t)
	first, r, _ := onNode(t, rdb, "node-1")
	second, _, _ := onNode(t, rdb, "node-2")
	run := first.mustStart(t, replay())
	other := replay()
	other.Topic = "mails"
	for name, start := range map[string]func() error{
		"same node":  func() error { _, err := first.Start(t.Context(), other); return err },
		"same topic": func() error { _, err := second.Start(t.Context(), replay()); return err },
	} {
		if busy, ok := errors.AsType[*RunningError](start()); !ok || busy.Run.ID != run.ID || !strings.Contains(busy.Error(), run.ID) {
			t.Errorf("%s: got %v, want the run named that goes on", name, busy)
		}
	}
	second.mustStart(t, other)
	r.end <- nil
	await(t, first.Store, run.ID, in(Done))
	first.mustStartSoon(t, replay())
}

// Any node stops a run. Its node does so within two seconds.
func TestARunIsStoppedFromAnyNode(t *testing.T) {
	t.Parallel()
	rdb, _ := newRedis(t)
	s, r, _ := onNode(t, rdb, "node-1")
	run := s.mustStart(t, replay())
	r.now <- Progress{Matched: 10, Done: 4}
	elsewhere := NewStore(rdb, "ns")
	if got, err := elsewhere.Stop(t.Context(), run.ID, "bert", "too fast"); err != nil || got.StoppedBy != "bert" {
		t.Errorf("got %+v and %v", got, err)
	}
	if got, err := elsewhere.Stop(t.Context(), run.ID, "carl", ""); err != nil || got.State == Running && got.StoppedBy != "bert" {
		t.Errorf("got %+v and %v of a second request, want the first one's", got, err)
	}
	asked := time.Now()
	got := await(t, elsewhere, run.ID, in(Stopped))
	if took := time.Since(asked); took > 5*time.Second || got.Done != 4 || got.StoppedBy != "bert" || got.Error != "" {
		t.Errorf("got %+v after %v", got, took)
	}
	if _, err := elsewhere.Stop(t.Context(), run.ID, "bert", ""); !errors.Is(err, ErrOver) {
		t.Errorf("got %v, want that it is over", err)
	}
	if _, err := elsewhere.Stop(t.Context(), "7", "bert", ""); !errors.Is(err, ErrUnknown) {
		t.Errorf("got %v, want that there is none", err)
	}
	if _, err := elsewhere.Stop(t.Context(), "7", "bert", strings.Repeat("x", audit.MostWhy+1)); err == nil {
		t.Error("got no error for a long reason")
	}
	if all := texts(t, elsewhere); len(all) != 3 || all[1] != "bert: "+run.ID+" was asked to stop: too fast" || !strings.HasPrefix(all[2], "bert: "+run.ID+" ended, stopped: 4 of 10") {
		t.Errorf("got %q", all)
	}
}

// A node that ends stops its run, and takes no other. The request that comes meanwhile is not lost silently.
func TestANodeThatEndsStopsItsRun(t *testing.T) {
	t.Parallel()
	rdb, _ := newRedis(t)
	s, r, stop := onNode(t, rdb, "node-1")
	run := s.mustStart(t, replay())
	<-r.began
	stop()
	if got, err := s.Get(t.Context(), run.ID); err != nil || got.State != Stopped || got.Error != "its node ended" {
		t.Errorf("got %+v and %v", got, err)
	}
	if _, err := s.Start(t.Context(), replay()); !errors.Is(err, ErrEnds) {
		t.Errorf("got %v, want that the node ends", err)
	}
	if all := texts(t, s.Store); len(all) != 2 || !strings.HasPrefix(all[1], "node node-1: "+run.ID+" ended, stopped") {
		t.Errorf("got %q", all)
	}
	// A run that was handed over when the node ended is stopped, too.
	s = New(Options{Store: NewStore(rdb, "ns"), Runner: r.run, Node: "node-1", Logger: slog.New(slog.DiscardHandler)})
	run = s.mustStart(t, replay())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get(t.Context(), run.ID); err != nil || got.State != Stopped {
		t.Errorf("got %+v and %v", got, err)
	}
}

// A run whose node is gone is shown as lost after ten seconds, and is no longer in the way, also where Redis's clock was set back.
func TestARunOfANodeThatIsGoneIsLost(t *testing.T) {
	t.Parallel()
	rdb, server := newRedis(t)
	at := time.Unix(1_800_000_000, 0)
	server.SetTime(at)
	gone := New(Options{Store: NewStore(rdb, "ns"), Runner: newSteps().run, Node: "node-1", Logger: slog.New(slog.DiscardHandler)}) // never runs
	run := gone.mustStart(t, replay())
	server.SetTime(at.Add(LostAfter))
	if got, err := gone.Get(t.Context(), run.ID); err != nil || got.State != Running {
		t.Errorf("got %+v and %v within the time", got, err)
	}
	server.SetTime(at.Add(LostAfter + time.Millisecond))
	if got, err := gone.Get(t.Context(), run.ID); err != nil || got.State != Lost {
		t.Errorf("got %+v and %v, want it lost", got, err)
	}
	if _, err := gone.Stop(t.Context(), run.ID, "anna", ""); !errors.Is(err, ErrOver) {
		t.Errorf("got %v, want that it is over", err)
	}
	server.SetTime(at.Add(-LostAfter))
	if got, err := gone.Get(t.Context(), run.ID); err != nil || got.State != Running {
		t.Errorf("got %+v and %v after a small step back", got, err)
	}
	server.SetTime(at.Add(-LostAfter - time.Millisecond))
	s, _, _ := onNode(t, rdb, "node-2")
	s.mustStart(t, replay())
}

// While Redis does not answer, a run goes on for eight seconds. Then nobody could stop it any more, and its node does.
func TestARunThatNobodyCanSeeEnds(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	rdb, server := newRedis(t)
	s, r, _ := onNode(t, rdb, "node-1")
	run := s.mustStart(t, replay())
	<-r.began
	r.now <- Progress{Matched: 10, Done: 4}
	await(t, s.Store, run.ID, func(r Run) bool { return r.Done == 4 })
	server.SetError("LOADING")
	time.Sleep(unseenAfter + 2*time.Second)
	server.SetError("")
	if got := await(t, s.Store, run.ID, in(Failed)); got.Error != errUnseen.Error() || got.Done != 4 {
		t.Errorf("got %+v", got)
	}
}

// A run outlives that Redis loses its data: its next second is written again.
func TestARunIsBackAfterRedisLostIt(t *testing.T) {
	t.Parallel()
	rdb, server := newRedis(t)
	s, r, _ := onNode(t, rdb, "node-1")
	run := s.mustStart(t, replay())
	server.FlushAll()
	await(t, s.Store, run.ID, in(Running))
	r.end <- nil
	await(t, s.Store, run.ID, in(Done))
}

func TestTheLast50RunsAreKept(t *testing.T) {
	t.Parallel()
	rdb, server := newRedis(t)
	s := NewStore(rdb, "ns")
	at := time.Unix(1_800_000_000, 0)
	var last, running Run
	for n := range MostRuns + 5 {
		server.SetTime(at.Add(time.Duration(n) * time.Millisecond))
		req := replay()
		req.Topic = fmt.Sprint("jobs-", n)
		run, err := s.start(t.Context(), req.begun("node-1"))
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			running = run
			continue
		}
		run.State = Done
		if _, err := s.save(t.Context(), run, "", ""); err != nil {
			t.Fatal(err)
		}
		last = run
	}
	runs, err := s.List(t.Context())
	if err != nil || len(runs) != MostRuns || runs[0].ID != last.ID || runs[MostRuns-1].ID != running.ID || runs[MostRuns-2].Topic != "jobs-6" {
		t.Errorf("got %d runs and %v, the newest %s, want the last ones and the one that is running", len(runs), err, runs[0].Topic)
	}
	if keys, err := server.HKeys("dispatcher:{ns}:redrives"); err != nil || len(keys) != 2*MostRuns+1 {
		t.Errorf("got %d fields and %v, want two of each run and the revision", len(keys), err)
	}
	for n := range MostRuns { // all are running
		req := replay()
		req.Topic = fmt.Sprint("more-", n)
		if _, err = s.start(t.Context(), req.begun("node-1")); err != nil {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "as many are running as there may be") {
		t.Errorf("got %v, want no more", err)
	}
}

func TestRequestsThatCanNotBeHonouredAreRefused(t *testing.T) {
	t.Parallel()
	rdb, _ := newRedis(t)
	s, _, _ := onNode(t, rdb, "node-1")
	for want, r := range map[string]Request{
		"kind":                    {Topic: "jobs"},
		"topic":                   {Kind: Drop},
		"is for a replay":         {Kind: Drop, Topic: "jobs", Rate: 5},
		"must be at least 0.01":   {Kind: Replay, Topic: "jobs", Rate: -1},
		"leave out class":         {Kind: Replay, Topic: "jobs", IDs: make([]deadletter.RecordID, 1), Since: time.Now()},
		"must have at most 200 c": {Kind: Replay, Topic: "jobs", Why: strings.Repeat("x", audit.MostWhy+1)},
	} {
		if _, err := s.Start(t.Context(), r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if all := texts(t, s.Store); len(all) != 0 {
		t.Errorf("got %q written down", all)
	}
}

// Whatever nodes, operators and Redis's clock do: done and left are never more than matched; of a topic no two runs are shown as
// running at once, unless the clock was set; no run is shown as running when its node has not written within ten seconds of the
// clock; and an end stays.
func TestLawOfRuns(t *testing.T) {
	t.Parallel()
	rdb, server := newRedis(t)
	s := NewStore(rdb, "ns")
	rapid.Check(t, func(rt *rapid.T) {
		server.FlushAll()
		at := time.Unix(1_800_000_000, 0)
		server.SetTime(at)
		type model struct {
			Run

			wrote time.Time     // on Redis's clock
			quiet time.Duration // since then
			ended bool
		}
		var all []*model
		wasSet := false // Redis's clock
		lost := func(m *model) bool { return !m.ended && at.Sub(m.wrote).Abs() > LostAfter }
		ctx := t.Context()
		pick := func() *model {
			if len(all) == 0 {
				return nil
			}
			return rapid.SampledFrom(all).Draw(rt, "run")
		}
		rt.Repeat(map[string]func(*rapid.T){
			"start": func(rt *rapid.T) {
				r := replay()
				r.Topic = rapid.SampledFrom([]string{"jobs", "mails"}).Draw(rt, "topic")
				run, err := s.start(ctx, r.begun("node"))
				if _, busy := errors.AsType[*RunningError](err); busy {
					return
				}
				if err != nil {
					rt.Fatal(err)
				}
				if len(all) < 20 { // all are kept
					all = append(all, &model{Run: run, wrote: at})
				}
			},
			"write": func(rt *rapid.T) {
				m := pick()
				if m == nil || m.ended || m.quiet > unseenAfter { // then the node ends its run
					return
				}
				m.Matched += rapid.Int64Range(0, 9).Draw(rt, "matched")
				m.Done += rapid.Int64Range(0, m.Matched-m.Done-m.Left).Draw(rt, "done")
				m.Left += rapid.Int64Range(0, m.Matched-m.Done-m.Left).Draw(rt, "left")
				m.ended = rapid.Bool().Draw(rt, "ends")
				if m.wrote, m.quiet = at, 0; m.ended {
					m.State = rapid.SampledFrom([]State{Done, Stopped, Failed}).Draw(rt, "end")
				}
				if _, err := s.save(ctx, m.Run, "", ""); err != nil {
					rt.Fatal(err)
				}
			},
			"stop": func(rt *rapid.T) {
				m := pick()
				if m == nil {
					return
				}
				if _, err := s.Stop(ctx, m.ID, "bert", ""); (err != nil) != (m.ended || lost(m)) {
					rt.Fatalf("got %v for %+v", err, m)
				}
			},
			"later": func(rt *rapid.T) {
				by := time.Duration(rapid.IntRange(1, 6000).Draw(rt, "ms")) * time.Millisecond
				for _, m := range all {
					m.quiet += by
				}
				at = at.Add(by)
				server.SetTime(at)
			},
			"set the clock": func(rt *rapid.T) {
				at = at.Add(time.Duration(rapid.IntRange(-30_000, 30_000).Draw(rt, "ms")) * time.Millisecond)
				wasSet = true
				server.SetTime(at)
			},
			"": func(rt *rapid.T) {
				runs, err := s.List(ctx)
				if err != nil || len(runs) > MostRuns {
					rt.Fatal(len(runs), err)
				}
				running := map[string]bool{}
				for _, r := range runs {
					if r.Done+r.Left > r.Matched {
						rt.Errorf("got %+v", r)
					}
					if r.State == Running && running[r.Topic] && !wasSet {
						rt.Errorf("got two runs of %s", r.Topic)
					}
					running[r.Topic] = running[r.Topic] || r.State == Running
				}
				for _, m := range all {
					i := slices.IndexFunc(runs, func(r Run) bool { return r.ID == m.ID })
					if i < 0 {
						continue // not kept
					}
					want := m.State
					if lost(m) {
						want = Lost
					}
					if runs[i].State != want {
						rt.Errorf("got %s as %s, want %s", m.ID, runs[i].State, want)
					}
				}
			},
		})
	})
}

// Whatever a command has counted, its parts are no more than what matched: letters that were named and are settled or do not exist
// are no such part.
func TestLawOfProgress(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var tally dlq.Tally
		for range rapid.IntRange(0, 40).Draw(rt, "letters") {
			part := rapid.SampledFrom([]*int64{&tally.Done, &tally.Truncated, &tally.NoTopic, &tally.Unwritten, &tally.OutOfReach, new(int64)}).Draw(rt, "part")
			*part++
			tally.Matched++
		}
		tally.Settled = make([]deadletter.RecordID, rapid.IntRange(0, 9).Draw(rt, "settled"))
		tally.Missing = make([]deadletter.RecordID, rapid.IntRange(0, 9).Draw(rt, "missing"))
		var p Progress
		p.count(&tally)
		if p.Done+p.Left > p.Matched || p.Left != tally.Left()-p.Settled-p.Missing {
			rt.Errorf("got %+v of %+v", p, tally)
		}
	})
}

// Of two that start a run of a topic at the same time, one does.
func TestLawOneOfTwoStarts(t *testing.T) {
	t.Parallel()
	rdb, server := newRedis(t)
	s := NewStore(rdb, "ns")
	for range 50 {
		server.FlushAll()
		done := make(chan error, 3)
		for range cap(done) {
			go func() {
				r := replay()
				_, err := s.start(t.Context(), r.begun("node"))
				done <- err
			}()
		}
		started := 0
		for range cap(done) {
			if err := <-done; err == nil {
				started++
			} else if _, busy := errors.AsType[*RunningError](err); !busy {
				t.Error(err)
			}
		}
		if started != 1 {
			t.Errorf("got %d started, want one", started)
		}
	}
}
