package rules

import (
	"errors"
	"log/slog"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"dispatcher/internal/audit"
	"dispatcher/internal/background"
	"dispatcher/internal/expression"
	"dispatcher/internal/redisclient"
	"dispatcher/job"
)

var start = time.Unix(1_700_000_000, 0)

func newStore(t *testing.T) (*Store, *miniredis.Miniredis) {
	t.Helper()
	server := miniredis.RunT(t)
	server.SetTime(start)
	rdb := redisclient.New(redisclient.Options{Addrs: []string{server.Addr()}})
	t.Cleanup(func() { _ = rdb.Close() })
	s := NewStore(rdb, "ns")
	if err := s.begin(t.Context()); err != nil { // as a node does
		t.Fatal(err)
	}
	return s, server
}

func cancelSpring() Rule {
	return Rule{Kind: Cancel, When: `job.headers["campaign"] == "spring"`, By: "anna", Why: "wrong price"}
}

func (s *Store) mustAdd(t *testing.T, r Rule, lasts time.Duration) (Rule, int64) {
	t.Helper()
	made, revision, err := s.Add(t.Context(), r, lasts)
	if err != nil {
		t.Fatal(err)
	}
	return made, revision
}

func TestARuleIsMadeEndedAndWrittenDown(t *testing.T) {
	t.Parallel()
	s, server := newStore(t)
	first, before := s.mustAdd(t, cancelSpring(), time.Hour)
	second, after := s.mustAdd(t, Rule{Kind: Hold, When: "true", Until: start.Add(time.Minute)}, 0)
	if first.ID != "1" || second.ID != "2" || after <= before || !first.Until.Equal(start.Add(time.Hour)) {
		t.Errorf("got %+v at %d and %+v at %d", first, before, second, after)
	}
	server.SetTime(start.Add(time.Minute))
	if l, _, err := s.Read(t.Context()); err != nil || len(l.Rules) != 1 || l.Rules[0].ID != "1" || l.Revision != after {
		t.Errorf("got %+v and %v, want the one that has not ended", l, err)
	}
	if _, _, err := s.End(t.Context(), "2", "bert", ""); !errors.Is(err, ErrUnknown) {
		t.Errorf("got %v, want that there is no such rule any more", err)
	}
	if ended, _, err := s.End(t.Context(), "1", "bert", "the price is right"); err != nil || ended.ID != "1" {
		t.Errorf("got %+v and %v", ended, err)
	}
	if l, _, err := s.Read(t.Context()); err != nil || len(l.Rules) != 0 {
		t.Errorf("got %+v and %v, want none", l, err)
	}
	events, err := s.Events(t.Context(), 10)
	if err != nil || len(events) != 3 || events[0].Text != "1 ended: the price is right" || events[0].By != "bert" || !strings.Contains(events[2].Text, "1 cancel when job.headers") {
		t.Errorf("got %+v and %v, want what was done, the newest first", events, err)
	}
}

func TestRulesThatCanNotBeKeptAreRefused(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	for name, c := range map[string]struct {
		rule  Rule
		lasts time.Duration
		want  string
	}{
		"kind":          {Rule{Kind: "stop", When: "true"}, time.Hour, `kind: "stop"`},
		"no expression": {Rule{Kind: Cancel}, time.Hour, `when: "": is needed`},
		"expression":    {Rule{Kind: Cancel, When: "job.colour == 1"}, time.Hour, "when: "},
		"no bool":       {Rule{Kind: Cancel, When: "job.key"}, time.Hour, "a bool"},
		"past":          {Rule{Kind: Cancel, When: "true", Until: start.Add(-time.Second)}, 0, "must be in the future"},
		"no end":        {Rule{Kind: Cancel, When: "true"}, 0, "must be in the future"},
		"too long":      {Rule{Kind: Cancel, When: "true"}, Longest + time.Second, "must be within"},
		"why":           {Rule{Kind: Cancel, When: "true", Why: strings.Repeat("x", audit.MostWhy+1)}, time.Hour, "at most 200 characters"},
	} {
		if _, _, err := s.Add(t.Context(), c.rule, c.lasts); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	for range MostRules {
		s.mustAdd(t, Rule{Kind: Hold, When: "false"}, time.Hour)
	}
	if _, _, err := s.Add(t.Context(), cancelSpring(), time.Hour); err == nil || !strings.Contains(err.Error(), "as many as there may be") {
		t.Errorf("got %v, want no more rules", err)
	}
}

func (s *Store) mustEnd(t *testing.T, id string) {
	t.Helper()
	if _, _, err := s.End(t.Context(), id, "anna", ""); err != nil {
		t.Fatal(err)
	}
}

// A script may end a rule long after it has ended already. That must not end the rule of somebody else.
func TestLawAnIDIsGivenOnce(t *testing.T) {
	t.Parallel()
	s, server := newStore(t)
	w := newWatcher(s, func() {})
	next := func(when, want string) {
		t.Helper()
		if r, _ := s.mustAdd(t, Rule{Kind: Hold, When: "true"}, time.Hour); r.ID != want {
			t.Errorf("%s: got id %s, want %s", when, r.ID, want)
		}
	}
	next("the first rule", "1")
	next("the second rule", "2")
	s.mustEnd(t, "2")
	next("after the newest rule was ended", "3")
	server.SetTime(start.Add(2 * time.Hour))
	next("after all rules have ended by themselves", "4")
	s.mustEnd(t, "4")
	w.read(t.Context())
	server.FlushAll()
	w.read(t.Context())
	next("after Redis lost the rules and a node put them back", "5")
	older := `[{"id":"9","kind":"hold","when":"true","until":"2023-11-15T22:13:20Z"}]`
	server.HSet(s.key(), "revision", "1800000000000000", "list", older)
	next("after a build without the memory made rule 9", "10")
	s.mustEnd(t, "9")
	s.mustEnd(t, "10")
	next("after these were ended", "11")
}

// of makes what expressions see of a job of a campaign.
func of(campaign string) func() *expression.Job {
	j := &job.Job{Record: job.Record{Headers: []job.Header{{Key: "campaign", Value: []byte(campaign)}}, Value: []byte(`{"to":"x"}`)}}
	return func() *expression.Job { return expression.JobOf(j, "default", "jobs") }
}

func newWatcher(s *Store, changed func()) *Watcher {
	return NewWatcher(WatcherOptions{Store: s, Changed: changed, Logger: slog.New(slog.DiscardHandler)})
}

// A rule acts on a node at once, ends by itself, and survives that Redis loses it.
func TestANodeKnowsTheRulesThatAreInForce(t *testing.T) {
	t.Parallel()
	s, server := newStore(t)
	changed := make(chan struct{}, 8)
	w := newWatcher(s, func() { changed <- struct{}{} })
	if w.Match(func() *expression.Job { t.Error("a job is made, but there are no rules"); return nil }, time.Now()) != nil {
		t.Error("got a rule of none")
	}
	background.Run(t, w.Run)
	for server.PubSubNumSub(s.key())[s.key()] == 0 {
		time.Sleep(time.Millisecond)
	}
	s.mustAdd(t, Rule{Kind: Hold, When: "true"}, time.Hour)
	_, revision := s.mustAdd(t, cancelSpring(), time.Minute)
	for w.Revision() < revision {
		<-changed
	}
	now := time.Now()
	if r := w.Match(of("spring"), now); r == nil || r.Kind != Cancel || r.ID != "2" {
		t.Errorf("got %+v, want that cancelling wins", r)
	}
	if r := w.Match(of("autumn"), now); r == nil || r.Kind != Hold {
		t.Errorf("got %+v, want that it is held", r)
	}
	if r := w.Match(of("spring"), now.Add(2*time.Minute)); r == nil || r.Kind != Hold {
		t.Errorf("got %+v, want that the cancelling has ended", r)
	}
	known, _, err := s.Read(t.Context())
	server.FlushAll()
	server.Publish(s.key(), "look") // the running watcher alone may read
	for end := time.Now().Add(time.Minute); !server.Exists(s.key()); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the rules that Redis lost were not put back within a minute")
		}
	}
	if r := w.Match(of("spring"), now); r == nil || r.Kind != Cancel {
		t.Errorf("got %+v after Redis lost the rules, want those that were known", r)
	}
	if back, _, again := s.Read(t.Context()); !reflect.DeepEqual(back, known) || errors.Join(err, again) != nil {
		t.Errorf("got %+v after Redis lost the rules, want them put back: %+v; %v %v", back, known, err, again)
	}
	server.SetTime(start.Add(time.Second))
	third, newest := s.mustAdd(t, Rule{Kind: Cancel, When: `job.headers["campaign"] == "autumn"`}, time.Hour)
	for w.Revision() < newest {
		<-changed
	}
	if r := w.Match(of("autumn"), now); r == nil || r.ID != third.ID || third.ID != "3" {
		t.Errorf("got %+v, want the new rule beside those that were put back", r)
	}
}

// Nodes know rules of different revisions when Redis loses them, or some of them. Whoever looks first, in the end Redis and all nodes have the
// newest rules that a node knew.
func TestLawTheNewestKnownRulesArePutBack(t *testing.T) {
	t.Parallel()
	s, server := newStore(t)
	rapid.Check(t, func(rt *rapid.T) {
		server.FlushAll()
		if err := s.begin(t.Context()); err != nil {
			rt.Fatal(err)
		}
		nodes := make([]*Watcher, rapid.IntRange(1, 4).Draw(rt, "nodes"))
		for i := range nodes {
			nodes[i] = newWatcher(s, func() {})
		}
		var revisions []List
		for range rapid.IntRange(1, 5).Draw(rt, "changes") {
			s.mustAdd(t, Rule{Kind: Hold, When: "true"}, time.Hour)
			now, _, err := s.Read(t.Context())
			if err != nil {
				rt.Fatal(err)
			}
			revisions = append(revisions, now)
			for _, w := range nodes {
				if rapid.Bool().Draw(rt, "reads") {
					w.read(t.Context())
				}
			}
		}
		newest := List{Revision: first} // which a node makes that knows none
		for _, w := range nodes {
			if known := w.set.Load().list; known.Revision > newest.Revision {
				newest = known
			}
		}
		server.FlushAll()
		if kept := rapid.IntRange(-1, len(revisions)-1).Draw(rt, "what a replica has"); kept >= 0 {
			if _, err := s.putBack(t.Context(), 0, revisions[kept]); err != nil {
				rt.Fatal(err)
			}
			if revisions[kept].Revision > newest.Revision {
				newest = revisions[kept]
			}
		}
		for range 3 {
			for _, i := range rapid.Permutation(indexes(len(nodes))).Draw(rt, "order") {
				nodes[i].read(t.Context())
			}
		}
		if back, _, err := s.Read(t.Context()); err != nil || !reflect.DeepEqual(back, newest) {
			rt.Errorf("got %+v in Redis, want %+v; %v", back, newest, err)
		}
		for i, w := range nodes {
			if got := w.Revision(); got != newest.Revision {
				rt.Errorf("node %d: got revision %d, want %d", i, got, newest.Revision)
			}
		}
	})
}

func indexes(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// An operator may make a rule just after Redis lost the rules, before a node has put them back.
func TestLawARuleThatIsMadeJustAfterALossReplacesNoOther(t *testing.T) {
	t.Parallel()
	s, server := newStore(t)
	knows, starts := newWatcher(s, func() {}), newWatcher(s, func() {})
	s.mustAdd(t, cancelSpring(), time.Hour)
	knows.read(t.Context())
	server.FlushAll()
	starts.read(t.Context())
	added := make(chan error)
	go func() {
		_, _, err := s.Add(t.Context(), Rule{Kind: Hold, When: "true"}, time.Hour)
		added <- err
	}()
	time.Sleep(10 * time.Millisecond) // it finds no rules; where it has not looked yet, the test shows less
	knows.read(t.Context())
	if err := <-added; err != nil {
		t.Fatal(err)
	}
	if l, _, err := s.Read(t.Context()); err != nil || len(l.Rules) != 2 || l.Rules[0].Kind != Cancel || l.Rules[1].ID != "2" {
		t.Errorf("got %+v and %v, want the rule that was lost and the new one", l, err)
	}
}

// Where no node runs that could put rules back, a rule is made all the same.
func TestARuleIsMadeThoughNoNodeHasRun(t *testing.T) {
	t.Parallel()
	s, server := newStore(t)
	server.FlushAll()
	if r, _ := s.mustAdd(t, cancelSpring(), time.Hour); r.ID != "1" {
		t.Errorf("got %+v, want rule 1", r)
	}
}

// A node writes down that there are no rules once it has found none twice: in between, another node would have put back what it knows.
func TestANodeBeginsAListThatIsMissing(t *testing.T) {
	t.Parallel()
	s, server := newStore(t)
	server.FlushAll()
	w := newWatcher(s, func() {})
	for n, exists := range []bool{false, true} {
		if w.read(t.Context()); server.Exists(s.key()) != exists {
			t.Errorf("after %d readings: got a list: %v, want %v", n+1, !exists, exists)
		}
	}
	if events, err := s.Events(t.Context(), 9); err != nil || len(events) != 0 {
		t.Errorf("got %+v and %v, want no change written down", events, err)
	}
}

// A node that hears which rules are in force reads them where it knows others. That begins no list: it would be too soon.
func TestANodeHearsWhichRulesAreInForce(t *testing.T) {
	t.Parallel()
	s, server := newStore(t)
	w := newWatcher(s, func() {})
	hear := func(when string, revision int64, polled bool, known int64) {
		t.Helper()
		if got := w.compare(t.Context(), revision); got != polled || w.Revision() != known {
			t.Errorf("%s: got %v and revision %d, want %v and %d", when, got, w.Revision(), polled, known)
		}
	}
	server.FlushAll()
	for range 3 {
		if hear("there is no list", none, false, none); server.Exists(s.key()) {
			t.Fatal("got a list, and the node has not looked for it")
		}
	}
	server.HSet(s.key(), "revision", "1", "list", "")
	_, newest := s.mustAdd(t, cancelSpring(), time.Hour)
	hear("a rule was made", newest, true, newest)
	server.HSet(s.key(), "list", "what nobody reads")
	hear("nothing has changed", newest, true, newest)
	if w.Match(of("spring"), time.Now()) == nil {
		t.Error("got no rule: the list was read again")
	}
	server.FlushAll()
	hear("Redis has lost the list", none, true, newest)
	if got := server.HGet(s.key(), "revision"); got != strconv.FormatInt(newest, 10) {
		t.Errorf("got revision %q in Redis, want it put back", got)
	}
}

// Hear waits for nobody.
func TestHearingDoesNotWait(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	w := newWatcher(s, func() {})
	for range 3 {
		w.Hear(7)
	}
	if got := <-w.heard; got != 7 {
		t.Errorf("got %d, want 7", got)
	}
}

func TestARuleThatFailsOnAJobDoesNotMatch(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	s.mustAdd(t, Rule{Kind: Cancel, When: `job.json.amount > 5`}, time.Hour)
	w := newWatcher(s, func() {})
	w.read(t.Context())
	if r := w.Match(of("spring"), time.Now()); r != nil {
		t.Errorf("got %+v, want no rule", r)
	}
	var none *Watcher
	if none.Match(of("spring"), time.Now()) != nil || none.Revision() != 0 {
		t.Error("a node without rules has some")
	}
}

// Rules come and go, so a node that kept the series of each would have more and more of them.
func TestTheErrorsOfARuleGoWithIt(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	rule, _ := s.mustAdd(t, Rule{Kind: Cancel, When: `job.json.amount > 5`}, time.Hour)
	w := newWatcher(s, func() {})
	series := func() int {
		all := make(chan prometheus.Metric, MostRules)
		w.failed.Collect(all)
		return len(all)
	}
	w.read(t.Context())
	if n := series(); n != 1 {
		t.Errorf("got %d series, want one for the rule before it has failed", n)
	}
	w.Match(of("spring"), time.Now())
	if n := series(); n != 1 {
		t.Errorf("got %d series, want one for the rule that failed", n)
	}
	if _, _, err := s.End(t.Context(), rule.ID, "anna", ""); err != nil {
		t.Fatal(err)
	}
	w.read(t.Context())
	if n := series(); n != 0 {
		t.Errorf("got %d series after the rule was ended, want none", n)
	}
}

// Changes that are made at the same time are all made: none undoes another one.
func TestLawNoChangeIsLost(t *testing.T) {
	t.Parallel()
	s, server := newStore(t)
	rapid.Check(t, func(rt *rapid.T) {
		server.FlushAll()
		if err := s.begin(t.Context()); err != nil {
			rt.Fatal(err)
		}
		n := rapid.IntRange(2, 5).Draw(rt, "operators")
		done := make(chan error, n)
		for range n {
			go func() {
				_, _, err := s.Add(t.Context(), Rule{Kind: Hold, When: "true"}, time.Hour)
				done <- err
			}()
		}
		made := 0
		for range n {
			if err := <-done; err == nil {
				made++
			} else if !errors.Is(err, ErrBusy) {
				rt.Fatal(err)
			}
		}
		l, _, err := s.Read(t.Context())
		ids := map[string]bool{}
		for _, r := range l.Rules {
			ids[r.ID] = true
		}
		if err != nil || len(ids) != made {
			rt.Errorf("got the rules %v and %v, want %d", ids, err, made)
		}
	})
}
