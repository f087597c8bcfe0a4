package control_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"dispatcher/internal/background"
	"dispatcher/throttle"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// deployment is a Redis with a limit of 300 a second, and the nodes that keep it.
type deployment struct {
	*control.Control
	server *miniredis.Miniredis
	rdb    redis.UniversalClient
}

func newDeployment(t *testing.T, guardrails limit.Guardrails, nodes int) *deployment {
	t.Helper()
	c := &deployment{server: miniredis.RunT(t)}
	c.rdb = redis.NewClient(&redis.Options{Addr: c.server.Addr()})
	t.Cleanup(func() { _ = c.rdb.Close() })
	var err error
	if c.Control, err = control.NewControl(c.rdb, "default", "provider"); err != nil {
		t.Fatal(err)
	}
	for i := range nodes {
		c.join(t, fmt.Sprint("node-", i+1), guardrails)
	}
	c.until(t, "the nodes are there", func() bool {
		here, err := c.Nodes(t.Context())
		return err == nil && len(here) == nodes
	})
	return c
}

// join starts a node; leave ends it.
func (c *deployment) join(t *testing.T, name string, guardrails limit.Guardrails) (leave func()) {
	t.Helper()
	return c.start(t, throttle.Options{Node: name, Limit: limit.Spec{Guardrails: guardrails, Terms: limit.Terms{Contract: limit.Contract{
		Cap: 300, Window: time.Second, Burst: 1,
		Guard: limit.DefaultGuard, Lateness: limit.DefaultLateness, Horizon: limit.DefaultHorizon,
	}}}})
}

// start starts a node with options; leave ends it.
func (c *deployment) start(t *testing.T, o throttle.Options) (leave func()) {
	t.Helper()
	o.Redis, o.Namespace, o.Name, o.Identity = c.rdb, "default", "provider", throttle.IdentityNone
	l, err := throttle.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return background.Run(t, l.Run)
}

// until polls: its deadline is for what hangs.
func (c *deployment) until(t *testing.T, what string, so func() bool) {
	t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(30 * time.Second); !so(); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatalf("still not so: %s", what)
		}
	}
}

func (c *deployment) must(t *testing.T, ch control.Change) limit.Settings {
	t.Helper()
	s, err := c.Set(t.Context(), ch)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func capOf(n int64) control.Change {
	return control.Change{Values: parameters.Values{"cap": fmt.Sprint(n)}, By: "ops"}
}

func capFor(n int64, d time.Duration) control.Change {
	ch := capOf(n)
	ch.For = d
	return ch
}

func paused(p bool) control.Change {
	return control.Change{Values: parameters.Values{"paused": fmt.Sprint(p)}, By: "ops"}
}

func TestAPlainChangeHoldsNowAndAfterTheOverride(t *testing.T) {
	t.Parallel()
	c := newDeployment(t, limit.Guardrails{}, 1)
	c.must(t, capFor(500, time.Minute))
	s := c.must(t, paused(true))
	if s.Cap != 500 || !s.Paused || s.RevertTo.Cap != 300 || !s.RevertTo.Paused || s.RevertAt.IsZero() {
		t.Errorf("got %+v after a pause in an override, want it paused now and then, with the caps as they were", s)
	}
	if s = c.must(t, control.Change{Values: parameters.Values{"burst": "3"}}); s.Burst != 3 || s.RevertTo.Burst != 3 || s.Cap != 500 || s.RevertTo.Cap != 300 {
		t.Errorf("got %+v, want the burst now and then", s)
	}
	if s = c.must(t, capOf(250)); s.Cap != 250 || !s.RevertAt.IsZero() || s.RevertTo != (limit.Terms{}) {
		t.Errorf("got %+v after a plain cap, want it for good: nothing is left to return to", s)
	}
}

// A pause without an end outlasts an override that begins in it.
func TestAPauseEndsWithNoOverrideOfTheCap(t *testing.T) {
	t.Parallel()
	c := newDeployment(t, limit.Guardrails{}, 1)
	c.must(t, paused(true))
	if s := c.must(t, capFor(100, 10*time.Minute)); !s.Paused || s.RevertAt.IsZero() || !s.PauseEnds().IsZero() {
		t.Errorf("got the end %v of the pause in %+v, want none", s.PauseEnds(), s)
	}
	ch := paused(true)
	ch.For = time.Hour
	if c.must(t, paused(false)).PauseEnds() != (time.Time{}) || c.must(t, ch).PauseEnds().IsZero() {
		t.Error("want an end of a pause with an end alone")
	}
}

func TestAnOverrideOfAnOverrideReturnsToWhatWasBeforeBoth(t *testing.T) {
	t.Parallel()
	c := newDeployment(t, limit.Guardrails{}, 1)
	first := c.must(t, capFor(500, time.Minute))
	second := c.must(t, capFor(400, time.Hour))
	if second.RevertTo.Cap != 300 || second.Cap != 400 || second.RevertAt.Before(first.RevertAt.Add(50*time.Minute)) {
		t.Errorf("got %+v, want 400 for an hour, then 300", second)
	}
}

func pausedFor(d time.Duration) control.Change {
	ch := paused(true)
	ch.For = d
	return ch
}

// A provider that asks for 100 until eight gets no more before, whatever is paused meanwhile.
func TestAPauseLeavesTheCapThatIsInForceForAWhile(t *testing.T) {
	t.Parallel()
	c := newDeployment(t, limit.Guardrails{}, 1)
	asked := c.must(t, capFor(100, 2*time.Hour))
	same := func(what string, s limit.Settings) {
		t.Helper()
		if s.Paused || s.Cap != 100 || !s.RevertAt.Equal(asked.RevertAt) || s.RevertTo != asked.RevertTo {
			t.Errorf("%s: got %+v, want 100 until %v, then 300", what, s, asked.RevertAt)
		}
	}
	s := c.must(t, pausedFor(15*time.Minute))
	if !s.Paused || s.Cap != 100 || !s.PauseEnds().Equal(s.RevertAt) || !s.RevertAt.Before(asked.RevertAt.Add(-time.Hour)) {
		t.Errorf("got %+v, want a pause of 15 minutes", s)
	}
	same("at the end of the pause", s.Reverted())
	same("resumed", c.must(t, paused(false)))
	c.must(t, pausedFor(15*time.Minute))
	undone, err := c.Undo(t.Context(), 0, control.Change{By: "ops"})
	if same("undone", undone); err != nil {
		t.Error(err)
	}
	c.must(t, pausedFor(control.MinOverride))
	c.until(t, "the pause is over", func() bool {
		s, err = c.Get(t.Context())
		return err == nil && !s.Paused
	})
	same("after the pause", s)
}

func TestAnOverrideOfTheCapLeavesTheEndOfAPauseAlone(t *testing.T) {
	t.Parallel()
	c := newDeployment(t, limit.Guardrails{}, 1)
	ends := c.must(t, pausedFor(15*time.Minute)).RevertAt
	s := c.must(t, capFor(100, time.Hour))
	if !s.Paused || s.Cap != 100 || !s.PauseEnds().Equal(ends) {
		t.Errorf("got a pause until %v in %+v, want it until %v as before", s.PauseEnds(), s, ends)
	}
	if s = s.Reverted(); s.Paused || s.Cap != 100 || !s.RevertAt.After(ends.Add(40*time.Minute)) || s.RevertTo.Cap != 300 || s.RevertTo.Paused {
		t.Errorf("got %+v after the pause, want 100 for the rest of the hour, then 300", s)
	}
	if s = c.must(t, capOf(200)); !s.Paused || s.Cap != 200 || !s.PauseEnds().Equal(ends) || s.RevertTo.Cap != 200 || len(s.Spans()) != 2 {
		t.Errorf("got %+v, want 200 for good, and the pause as before", s)
	}
}

func TestAWasteIsRefusedAsAGuardrailRefuses(t *testing.T) {
	t.Parallel()
	c := newDeployment(t, limit.Guardrails{}, 1)
	c.must(t, control.Change{Values: parameters.Values{"burst": "100"}})
	lower := capOf(150)
	_, err := c.Set(t.Context(), lower)
	if refused, is := errors.AsType[*limit.GuardrailError](err); !is || refused.Guardrail != "burst" || !strings.HasPrefix(refused.Why, "100: leaves ") {
		t.Errorf("got %v, want the burst refused", err)
	}
	lower.Force = true
	if s := c.must(t, lower); s.Cap != 150 {
		t.Errorf("got %+v, want the cap by force", s)
	}
}

// Each call carries all terms that follow, so there is a bound.
func TestSettingsReturnAtFewTimes(t *testing.T) {
	t.Parallel()
	c := newDeployment(t, limit.Guardrails{}, 1)
	c.must(t, capFor(100, 4*time.Hour))
	c.must(t, pausedFor(time.Hour))
	most := c.must(t, control.Change{Values: parameters.Values{"burst": "2"}, For: 2 * time.Hour})
	fourth := control.Change{Values: parameters.Values{"horizon": "300ms"}, For: 3 * time.Hour}
	if _, err := c.Set(t.Context(), fourth); err == nil || !strings.Contains(err.Error(), "for: 3h0m0s: settings would return at 4 times, and may at 3") {
		t.Errorf("got %v, want a fourth end refused", err)
	}
	if s, err := c.Get(t.Context()); err != nil || !s.Same(most) || len(s.Spans()) != 1+limit.MaxEnds {
		t.Errorf("got %+v, %v, want the settings as they were", s, err)
	}
	fourth.For = 0
	if s := c.must(t, fourth); len(s.Spans()) != 1+limit.MaxEnds || s.Spans()[limit.MaxEnds].Horizon != 300*time.Millisecond {
		t.Errorf("got %+v, want the horizon for good, also behind all ends", s.Spans())
	}
}

func TestAnOverrideEndsByItselfAndIsInTheHistory(t *testing.T) {
	t.Parallel()
	c := newDeployment(t, limit.Guardrails{}, 1)
	set := c.must(t, capFor(500, control.MinOverride))
	c.until(t, "the override is over", func() bool {
		s, err := c.Get(t.Context())
		return err == nil && s.Revision > set.Revision
	})
	s, err := c.Get(t.Context())
	if err != nil || s.Cap != 300 || !s.RevertAt.IsZero() {
		t.Errorf("got %+v, %v, want the cap of 300 for good", s, err)
	}
	history, err := c.History(t.Context(), 10)
	if err != nil || len(history) != 2 {
		t.Fatalf("got %+v, %v, want two changes", history, err)
	}
	if e := history[0]; e.To.By != "dispatcher" || e.From.Cap != 500 || e.To.Cap != 300 || e.To.Changed.Before(set.RevertAt) {
		t.Errorf("got %+v, want the end of the override", e)
	}
	if e := history[1]; e.To.By != "ops" || !e.To.RevertAt.Equal(set.RevertAt) || e.To.Revision != set.Revision || !e.To.Changed.Equal(set.Changed) {
		t.Errorf("got %+v, want the override", e)
	}
}

// Overrides that ended at once, since Redis's clock went ahead, end one by one with the next calls.
func TestOverridesThatEndTogetherEndOneByOne(t *testing.T) {
	t.Parallel()
	c := newDeployment(t, limit.Guardrails{}, 1)
	c.must(t, capFor(500, 10*time.Minute))
	c.must(t, control.Change{Values: parameters.Values{"burst": "3"}, For: 20 * time.Minute, By: "ops"})
	c.server.SetTime(time.Now().Add(time.Hour))
	c.until(t, "no override is left", func() bool {
		s, err := c.Get(t.Context())
		return err == nil && s.Cap == 300 && s.Burst == 1 && s.RevertAt.IsZero()
	})
	history, err := c.History(t.Context(), 10)
	if err != nil || len(history) < 2 {
		t.Fatalf("got %+v, %v, want the ends in the history", history, err)
	}
	if first, second := history[1], history[0]; first.From.Cap != 500 || first.To.Cap != 300 || first.To.Burst != 3 ||
		first.To.By != limit.Dispatcher || second.From.Burst != 3 || second.To.Burst != 1 || second.To.By != limit.Dispatcher {
		t.Errorf("got %+v and then %+v, want the end of the cap's override, and then that of the burst's", first, second)
	}
}

func TestUndoTakesTheLastChangeBack(t *testing.T) {
	t.Parallel()
	c := newDeployment(t, limit.Guardrails{}, 1)
	s := c.must(t, control.Change{Values: parameters.Values{"cap": "200", "window": "2s"}})
	undone, err := c.Undo(t.Context(), 0, control.Change{By: "ops"})
	if err != nil || undone.Cap != 300 || undone.Window != time.Second || undone.Revision != s.Revision+1 || undone.Why != "undo of revision 2" {
		t.Errorf("got %+v, %v, want the cap and window before", undone, err)
	}
	if again, err := c.Undo(t.Context(), 0, control.Change{}); !errors.Is(err, control.ErrNotInHistory) {
		t.Errorf("got %+v, %v, want an error that nothing is left to be undone", again, err)
	}
	if second, err := c.Undo(t.Context(), 2, control.Change{Why: "no, it was right"}); err != nil || second.Cap != 200 || second.Why != "no, it was right" {
		t.Errorf("got %+v, %v, want revision 2", second, err)
	}
	if first, err := c.Undo(t.Context(), 1, control.Change{}); err != nil || first.Cap != 300 || first.Window != time.Second {
		t.Errorf("got %+v, %v, want what the file seeded", first, err)
	}
}

func TestUndoInAnOverrideLeavesTheRestOfItAlone(t *testing.T) {
	t.Parallel()
	c := newDeployment(t, limit.Guardrails{}, 1)
	c.must(t, capFor(500, time.Minute))
	c.must(t, paused(true))
	if s, err := c.Undo(t.Context(), 0, control.Change{}); err != nil || s.Paused || s.RevertTo.Paused || s.Cap != 500 || s.RevertAt.IsZero() {
		t.Errorf("got %+v, %v, want the pause undone and the override going on", s, err)
	}
	c.must(t, capOf(200))
	_, err := c.Undo(t.Context(), 0, control.Change{})
	if err == nil || !strings.Contains(err.Error(), "was an override until") {
		t.Errorf("got %v, want a refusal to make an override hold for good", err)
	}
	if s, err := c.Undo(t.Context(), 0, control.Change{For: time.Minute}); err != nil || s.Cap != 500 || s.RevertTo.Cap != 200 {
		t.Errorf("got %+v, %v, want 500 for a minute", s, err)
	}
}

// An override is not made to hold for good either where only what came after it is remembered.
func TestUndoToAForgottenOverrideIsRefused(t *testing.T) {
	t.Parallel()
	c := newDeployment(t, limit.Guardrails{}, 1)
	c.must(t, capFor(500, time.Minute))
	c.must(t, capOf(200))
	if err := c.rdb.XTrimMaxLen(t.Context(), "dispatcher:{default}:history:provider", 1).Err(); err != nil {
		t.Fatal(err)
	}
	if s, err := c.Undo(t.Context(), 2, control.Change{}); err == nil || !strings.Contains(err.Error(), "was an override until") {
		t.Errorf("got %+v and %v, want a refusal to make an override hold for good", s, err)
	}
	if s, err := c.Undo(t.Context(), 2, control.Change{For: time.Minute}); err != nil || s.Cap != 500 || s.RevertTo.Cap != 200 {
		t.Errorf("got %+v and %v, want 500 for a minute", s, err)
	}
}

func TestUndoRefusesChangesThatTheHistoryDoesNotHold(t *testing.T) {
	t.Parallel()
	c := newDeployment(t, limit.Guardrails{}, 1)
	if _, err := c.Undo(t.Context(), 0, control.Change{}); !errors.Is(err, control.ErrNotInHistory) {
		t.Errorf("got %v for a limit that was never changed, want %v", err, control.ErrNotInHistory)
	}
	c.must(t, capOf(200))
	if _, err := c.Undo(t.Context(), 7, control.Change{}); !errors.Is(err, control.ErrNotInHistory) {
		t.Errorf("got %v for a revision that never was, want %v", err, control.ErrNotInHistory)
	}
	c.server.Del("dispatcher:{default}:history:provider")
	if _, err := c.Undo(t.Context(), 0, control.Change{}); !errors.Is(err, control.ErrNotInHistory) {
		t.Errorf("got %v without a history, want %v", err, control.ErrNotInHistory)
	}
}

func TestGuardrailsStandUnlessForced(t *testing.T) {
	t.Parallel()
	c := newDeployment(t, limit.Guardrails{MaxCap: 500, MaxStep: 2}, 1)
	before, err := c.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, ch := range map[string]control.Change{
		"max_cap": capOf(501), "max_step": capOf(149),
		"max_cap below the cap": {Values: parameters.Values{"max_cap": "200"}}, "max_step below 1": {Values: parameters.Values{"max_step": "0.9"}},
		"too short": capFor(400, time.Millisecond), "too long": capFor(400, control.MaxOverride+time.Second),
	} {
		if s, err := c.Set(t.Context(), ch); err == nil {
			t.Errorf("%s: got %+v, want a refusal", name, s)
		}
	}
	after, err := c.Get(t.Context())
	if diff := cmp.Diff(before, after, cmp.AllowUnexported(limit.Settings{})); err != nil || diff != "" {
		t.Errorf("refusals changed something: %v\n%s", err, diff)
	}
	forced := capOf(100)
	forced.Force = true
	if s := c.must(t, forced); s.Cap != 100 || s.MaxCap != 500 || s.MaxStep != 2 {
		t.Errorf("got %+v, want a cap of 100 under the same guardrails", s)
	}
}

func TestAGuardrailIsNotPassedByMovingItOnTheWay(t *testing.T) {
	t.Parallel()
	c := newDeployment(t, limit.Guardrails{MaxCap: 500, MaxStep: 2}, 1)
	ch := capOf(600)
	ch.Values["max_cap"], ch.Values["max_step"] = "600", "10"
	var guardrail *limit.GuardrailError
	if _, err := c.Set(t.Context(), ch); !errors.As(err, &guardrail) || guardrail.Guardrail != "max_cap" {
		t.Errorf("got %v, want a refusal by the ceiling that is in force", err)
	}
}

func TestGuardrailsAreInTheHistoryAndAreUndone(t *testing.T) {
	t.Parallel()
	c := newDeployment(t, limit.Guardrails{MaxCap: 500}, 1)
	c.must(t, control.Change{Values: parameters.Values{"max_cap": "600"}})
	history, err := c.History(t.Context(), 1)
	if err != nil || len(history) != 1 || history[0].From.MaxCap != 500 || history[0].To.MaxCap != 600 {
		t.Errorf("got %+v, %v, want the ceiling from 500 to 600", history, err)
	}
	if s, err := c.Undo(t.Context(), 0, control.Change{}); err != nil || s.MaxCap != 500 || s.Cap != 300 {
		t.Errorf("got %+v, %v, want the ceiling of 500 again", s, err)
	}
}

func TestOneOfTwoOperatorsLoses(t *testing.T) {
	t.Parallel()
	c := newDeployment(t, limit.Guardrails{}, 1)
	first, second := capOf(200), capOf(100)
	first.IfRevision, second.IfRevision = 1, 1
	c.must(t, first)
	_, err := c.Set(t.Context(), second)
	var lost *control.RevisionError
	if !errors.As(err, &lost) || lost.Now.Cap != 200 || lost.Wanted != 1 {
		t.Errorf("got %v, want an error that names the cap of 200", err)
	}
}

func TestEachNodeLearnsAChange(t *testing.T) {
	t.Parallel()
	c := newDeployment(t, limit.Guardrails{}, 3)
	s := c.must(t, capOf(200))
	n, took, err := c.Await(t.Context(), s)
	if err != nil || n != 3 {
		t.Errorf("got %d nodes after %v: %v, want 3", n, took, err)
	}
	nodes, err := c.Nodes(t.Context())
	if err != nil || len(nodes) != 3 {
		t.Fatalf("got %v, %v, want 3 nodes", nodes, err)
	}
	for i, node := range nodes {
		if want := fmt.Sprint("node-", i+1); node.Name != want || !strings.HasPrefix(node.ID, want+"-") || !node.Has(s) {
			t.Errorf("got %+v, want %s to know %v", node, want, s.Changed)
		}
	}
}

func TestANodeThatLacksAChangeIsNamed(t *testing.T) {
	t.Parallel()
	c := newDeployment(t, limit.Guardrails{}, 1)
	now, err := c.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const key = "dispatcher:{default}:nodes:provider"
	field := func(ago time.Duration) string { return fmt.Sprint("0 ", now.Add(-ago).UnixMicro()) }
	c.server.HSet(key, "deaf-0123456789abcdef", field(-30*time.Second)) // of the future: it seems to come from a clock set back
	c.server.HSet(key, "gone-0123456789abcdef", field(5*time.Minute))
	c.server.HSet(key, "old-0123456789abcdef", field(20*time.Minute))
	if nodes, err := c.Nodes(t.Context()); err != nil || len(nodes) != 1 {
		t.Errorf("got %v, %v, want the one that is there", nodes, err)
	}
	if c.server.HGet(key, "old-0123456789abcdef") != "" || c.server.HGet(key, "gone-0123456789abcdef") == "" {
		t.Error("want the field of 20 minutes ago removed and that of 5 minutes ago kept")
	}
	s := c.must(t, capOf(200))
	c.server.HSet(key, "deaf-0123456789abcdef", field(-3*time.Second))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, _, err = c.Await(ctx, s)
	var lack *control.NotEverywhereError
	if !errors.As(err, &lack) || len(lack.Lack) != 1 || lack.Lack[0].Name != "deaf" || lack.Of != 2 {
		t.Errorf("got %v, want deaf to be named", err)
	}
}

// Redis that fails over during a wait is asked again. Where it does not come back, the error says that the change is made.
func TestLawAWaitOutlastsAFailureOfRedis(t *testing.T) {
	t.Parallel()
	c := newDeployment(t, limit.Guardrails{}, 1)
	s := c.must(t, capOf(200))
	var fails atomic.Int64 // so many readings more
	c.server.Server().SetPreHook(func(p *server.Peer, command string, _ ...string) bool {
		failing := command == "HGETALL" && fails.Add(-1) >= 0
		if failing {
			p.WriteError("ERR away")
		}
		return failing
	})
	fails.Store(3)
	if n, took, err := c.Await(t.Context(), s); err != nil || n != 1 {
		t.Errorf("got %d nodes after %v: %v, want the one that there is", n, took, err)
	}
	fails.Store(math.MaxInt64)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	const want = "revision 2 is set, but which nodes know it could not be read: "
	if _, _, err := c.Await(ctx, s); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestANodeThatEndsIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	c := newDeployment(t, limit.Guardrails{}, 1)
	leave := c.join(t, "node-2", limit.Guardrails{})
	c.until(t, "two nodes", func() bool { n, err := c.Nodes(t.Context()); return err == nil && len(n) == 2 })
	leave()
	s := c.must(t, capOf(200))
	if n, took, err := c.Await(t.Context(), s); err != nil || n != 1 {
		t.Errorf("got %d nodes after %v: %v, want the one that is left", n, took, err)
	}
}

func TestLimitsAreListed(t *testing.T) {
	t.Parallel()
	c := newDeployment(t, limit.Guardrails{}, 1)
	c.server.HSet("dispatcher:{default}:limit:another", "cap", "1")
	c.server.HSet("dispatcher:{other}:limit:third", "cap", "1")
	names, err := control.Limits(t.Context(), c.rdb, "default")
	if diff := cmp.Diff([]string{"another", "provider"}, names); err != nil || diff != "" {
		t.Errorf("got %v, %v", names, err)
	}
	if _, err := control.Limits(t.Context(), c.rdb, "no}pe"); err == nil {
		t.Error("a namespace that is none was taken")
	}
}
