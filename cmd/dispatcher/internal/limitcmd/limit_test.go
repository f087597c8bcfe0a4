package limitcmd

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"dispatcher/cmd/dispatcher/internal/clitest"
	"dispatcher/internal/background"
	"dispatcher/internal/limits"
	"dispatcher/internal/redisclient"
	"dispatcher/throttle"
	"dispatcher/throttle/limit"
)

// patient is a lateness within which a node maps Redis's clock also where a script takes a while: under the race detector, on a host that
// others use.
const patient = 50 * time.Millisecond

// works waits until a limiter grants slots.
func works(t *testing.T, l *throttle.Limiter) {
	t.Helper()
	if _, err := l.Turn(t.Context(), throttle.OneLane, nil); err != nil {
		t.Fatal(err)
	}
}

// seeded is a Redis in which a node has begun to work with the limit.
func seeded(t *testing.T) (redisAddr string) {
	t.Helper()
	return seededServer(t).Addr()
}

func seededServer(t *testing.T) *miniredis.Miniredis {
	t.Helper()
	server := miniredis.RunT(t)
	rdb := redisclient.New(redisclient.Options{Addrs: []string{server.Addr()}})
	defer func() { _ = rdb.Close() }()
	l, err := throttle.New(throttle.Options{
		Redis: rdb, Namespace: "default", Name: "provider", Identity: throttle.IdentityNone,
		Limit: stated(400, limit.Guardrails{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	stop := background.Run(t, l.Run)
	works(t, l)
	stop()
	return server
}

func TestLimitIsShownAndChanged(t *testing.T) {
	t.Parallel()
	limit := limitOn(t, seeded(t))
	limit("get", "provider").MustPrint(t, "limit provider: at most 400 in any 1s, burst 1\n", "seeded from a file")
	limit("set", "provider", "--cap", "300", "--window", "1m").MustPrint(t, "at most 300 in any 1m", "but 400 in this configuration", "but 1s in this configuration", "@")
	limit("pause", "provider").MustPrint(t, "300 in any 1m, burst 1, paused")
	o := limit("get", "provider", "--json")
	o.MustPrint(t)
	state := shownLimit(t, o.Out)
	if state.Cap != 300 || state.WindowS != 60 || !state.Paused || state.By == "" || state.Changed == "" || !state.InFile || len(state.Differs) != 2 {
		t.Errorf("got %+v", state)
	}
	limit("resume", "provider").MustPrint(t, "at most 300 in any 1m, burst 1\n")
}

// shown is a limit as limit get writes it for programs.
type shown struct {
	limits.Document
	Cap     int64   `json:"cap"`
	WindowS float64 `json:"window_s"`
	Paused  bool    `json:"paused"`
	MaxCap  int64   `json:"max_cap"`
	MaxStep float64 `json:"max_step"`
}

func shownLimit(t *testing.T, text string) (s shown) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// The algorithm is a setting like the others, and the file's is only a seed.
func TestTheAlgorithmIsChangedLikeTheRest(t *testing.T) {
	t.Parallel()
	limit := limitOn(t, seeded(t))
	limit("get", "provider").MustPrint(t, "algorithm", "token_bucket")
	limit("set", "provider", "--algorithm", "sliding_window_log").MustPrint(t, "sliding_window_log", "but token_bucket in this configuration")
	limit("set", "provider", "--burst", "20").MustFail(t, "burst: 20: must be 1")
	limit("set", "provider", "--algorithm", "magic").MustFail(t, "algorithm: \"magic\": must be one of token_bucket")
	limit("set", "provider", "--algorithm", "redis_cell").MustFail(t, "needs the module redis-cell")
	limit("history", "provider").MustPrint(t, "algorithm token_bucket → sliding_window_log")
	limit("undo", "provider").MustPrint(t, "token_bucket")
}

// A limit that nodes have left is deleted, and not listed any more.
func TestALimitIsDeleted(t *testing.T) {
	t.Parallel()
	limit := limitOn(t, seeded(t))
	limit("list").MustPrint(t, "provider")
	limit("delete", "provider").MustPrint(t, "limit provider: deleted")
	limit("get", "provider").MustFail(t, "no such limit in Redis")
	limit("delete", "provider").MustFail(t, "no such limit in Redis")
	if o := limit("list", "--json"); strings.Contains(o.Out, "provider") {
		t.Errorf("got %s, want no limit", o.Out)
	}
}

// An emergency cut to any ordinary number is taken, however odd.
func TestOddNumbersAreTaken(t *testing.T) {
	t.Parallel()
	limit := limitOn(t, seeded(t))
	for _, set := range []struct{ cap, window, says string }{
		{"999999", "1h", "at most 999999 in any 1h"},
		{"100000", "24h", "at most 100000 in any 24h"},
		{"50021", "24h", "at most 50021 in any 24h"},
		{"1001", "720h", "at most 1001 in any 720h"},
		{"999983", "743h59m59.999999s", "at most 999983 in any 743h59m59.999999s"},
	} {
		limit("set", "provider", "--cap", set.cap, "--window", set.window, "--force").MustPrint(t, set.says)
	}
	limit("set", "provider", "--cap", "100000", "--window", "24h", "--burst", "100", "--force").MustPrint(t, "at most 100000 in any 24h", "burst 100")
}

// Only who calls the provider needs its secrets.
func TestALimitIsManagedWithoutTheProvidersSecrets(t *testing.T) {
	t.Parallel()
	file := clitest.WriteFile(t, "dispatcher.yaml", `sender: {http: {headers: {Authorization: "Bearer ${env:PROVIDER_TOKEN}"}}}`)
	limitOn(t, seeded(t))("pause", "provider", "-c", file).MustPrint(t, "paused")
}

// A reserve that only the file has is not in force, and limit get says so.
func TestAReserveOfTheFileIsShownToDiffer(t *testing.T) {
	t.Parallel()
	limitOn(t, seeded(t))("get", "provider", "--set", "limits.0.degraded=reserve", "--set", "limits.0.reserve=40", "--set", "limits.0.max_nodes=4").
		MustPrint(t, "reserve", "but 40 in this configuration", "max_nodes", "but 4 in this configuration")
}

func TestNonsenseChangesNothing(t *testing.T) {
	t.Parallel()
	limit := limitOn(t, seeded(t))
	before := limit("get", "provider", "--json")
	before.MustPrint(t, `"cap":400`)
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"set", "provider"}, "nothing to change"},
		{[]string{"set", "provider", "--cap", "0"}, "cap: 0: must be from 1"},
		{[]string{"set", "provider", "--cap", "-5"}, "cap: -5"},
		{[]string{"set", "provider", "--cap", "many"}, "cap: \"many\": must be a whole number (--cap); nothing was changed"},
		{[]string{"set", "provider", "--burst", "401"}, "burst: 401: must not be above the cap of 400"},
		{[]string{"set", "provider", "--window", "50ms"}, "window: 50ms: must be at least 10 times the guard"},
		{[]string{"set", "provider", "--window", "5"}, "window: \"5\": must be a duration with a unit, such as 10ms (--window)"},
		{[]string{"set", "nobody", "--cap", "3"}, `limit "nobody"`},
		{[]string{"get", "nobody"}, "no such limit"},
		{[]string{"pause", "nobody"}, "no such limit"},
		{[]string{"get", "no}body"}, "name: "},
	} {
		limit(row.args...).MustFail(t, row.want)
	}
	if after := limit("get", "provider", "--json"); after.Out != before.Out {
		t.Errorf("got %s, want what it was before: %s", after.Out, before.Out)
	}
}

func TestLimitWithoutRedisFailsSoon(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	addr := server.Addr()
	server.Close()
	limitOn(t, addr)("get", "provider").MustFail(t, `read limit "provider"`)
}

// A change is made also where Redis fails right after it: the error must not read as if nothing was changed.
func TestLawAnErrorAfterAChangeNamesItsRevision(t *testing.T) {
	t.Parallel()
	redis := seededServer(t)
	run := limitOn(t, redis.Addr())
	redis.Server().SetPreHook(func(c *server.Peer, command string, _ ...string) bool {
		if command == "HGETALL" {
			c.WriteError("ERR away")
		}
		return command == "HGETALL"
	})
	run("pause", "provider").MustFail(t, `revision 2 is set, but the limit could not be shown: read the nodes of limit "provider": ERR away`)
	run("resume", "provider", "--wait").MustFail(t, `revision 3 is set, but which nodes know it could not be read: read the nodes of limit "provider": `)
	redis.HSet("dispatcher:{default}:limit:provider", "slowdown", slowdown().Pack())
	run("release", "provider").MustFail(t, `limit "provider" is released, but could not be shown: read the nodes`)
	if o := run("release", "provider"); o.Err == nil || strings.Contains(o.Err.Error(), "is released") {
		t.Errorf("got %v where there was nothing to release", o.Err)
	}
}

// slowdown is one from now on, with a block.
func slowdown() limit.Slowdown {
	now := time.Now()
	return limit.Slowdown{
		Number: now.UnixMicro(), Since: now.UnixMicro(), Units: 20, Effective: 200, Window: 1_000_000, Slowed: now.UnixMicro(),
		Until: now.Add(time.Minute).UnixMicro(), Why: "the provider refused 50% of 300 units",
	}
}

func limitOn(t *testing.T, redisAddr string) func(args ...string) clitest.Outcome {
	t.Helper()
	return func(args ...string) clitest.Outcome {
		return clitest.Run(t.Context(), New, "", nil, append([]string{"--set", "redis.addrs=" + redisAddr, "limit"}, args...)...)
	}
}

// stated is a limit of so many units a second, as a file states it.
func stated(units int64, guardrails limit.Guardrails) limit.Spec {
	return limit.Spec{Guardrails: guardrails, Terms: limit.Terms{Contract: limit.Contract{
		Cap: units, Window: time.Second, Burst: 1,
		Guard: patient + limit.DefaultSpread, Lateness: patient, Spread: limit.DefaultSpread, Auto: true, Horizon: limit.DefaultHorizon,
	}}}
}

// working is a Redis with a node at work, which keeps a limit of 400 a second and the gates.
func working(t *testing.T, guardrails limit.Guardrails, gates ...throttle.Gate) (redisAddr string) {
	t.Helper()
	server := miniredis.RunT(t)
	rdb := redisclient.New(redisclient.Options{Addrs: []string{server.Addr()}})
	t.Cleanup(func() { _ = rdb.Close() })
	l, err := throttle.New(throttle.Options{
		Redis: rdb, Namespace: "default", Name: "provider", Node: "node-1", Identity: throttle.IdentityNone,
		Limit: stated(400, guardrails), Gates: gates,
	})
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, l.Run)
	works(t, l)
	return server.Addr()
}

func TestAnOverrideIsShownWithItsEnd(t *testing.T) {
	t.Parallel()
	limit := limitOn(t, working(t, limit.Guardrails{MaxCap: 900, MaxStep: 2.5}))
	limit("set", "provider", "--cap", "600", "--for", "10m", "--why", "a backlog", "--wait").
		MustPrint(t, "at most 600 in any 1s", "then at most 400 in any 1s, burst 1\n", "in force on 1/1 nodes after ", ": a backlog\n")
	limit("get", "provider").MustPrint(t, "(in 10m0s)", "in force on 1/1 nodes\n", "max_cap", "900", "max_step", "2.5")
	o := limit("pause", "provider", "--for", "1h", "--json")
	o.MustPrint(t)
	state := shownLimit(t, o.Out)
	if !state.Paused || state.RevertAt == "" || state.RevertInS == nil || *state.RevertInS > 600 || state.RevertTo["cap"] != 400.0 ||
		state.RevertTo["paused"] != true || state.RevertTo["revert_at"] == "" || state.MaxCap != 900 || state.MaxStep != 2.5 || state.InForce.Of != 1 {
		t.Errorf("got %s", o.Out)
	}
	limit("get", "provider").MustPrint(t, ", then at most 400 in any 1s, burst 1, paused; until ", "Z, then at most 400 in any 1s, burst 1\n")
	limit("list").MustPrint(t, "provider", "at most 600 in any 1s, burst 1, paused", "T")
	limit("list", "--json").MustPrint(t, `"name":"provider"`, `"revert_at":"`)
}

func TestChangesAreShownAndTakenBack(t *testing.T) {
	t.Parallel()
	limit := limitOn(t, working(t, limit.Guardrails{}))
	limit("history", "provider").MustPrint(t, "has not been changed")
	limit("set", "provider", "--cap", "300", "--guard", "9ms", "--why", "they asked for it").MustPrint(t)
	limit("undo", "provider", "--wait").MustPrint(t, "at most 400 in any 1s", "undo of revision 2", "on 1/1 nodes after")
	limit("history", "provider").MustPrint(t, "they asked for it", "undo of revision 2", "guard auto → 9ms, lateness auto → 2ms", "cap 300 → 400, guard 9ms → auto, lateness 2ms → auto")
	limit("undo", "provider", "--to", "2", "--if-revision", "3").MustPrint(t, "at most 300 in any 1s", "back to revision 2")
	limit("history", "provider", "-n", "1").MustPrint(t, "back to revision 2")
	o := limit("history", "provider", "--json")
	o.MustPrint(t)
	var changes []limits.Change
	if err := json.Unmarshal([]byte(o.Out), &changes); err != nil || len(changes) != 3 || changes[2].From["cap"] != 400.0 || changes[2].To["guard_s"] != 0.009 {
		t.Errorf("got %v, %s", err, o.Out)
	}
}

// A change that changes nothing makes no revision.
func TestNoRevisionForNoChange(t *testing.T) {
	t.Parallel()
	limit := limitOn(t, working(t, limit.Guardrails{}))
	limit("set", "provider", "--cap", "300").MustPrint(t, "acts within 250ms; no node has confirmed it yet")
	for _, args := range [][]string{{"set", "provider", "--cap", "300"}, {"set", "provider", "--cap", "300", "--for", "1h"}, {"resume", "provider"}} {
		o := limit(args...)
		o.MustPrint(t, "at most 300 in any 1s", "in force on ", "revision")
		if !strings.Contains(o.ErrOut, "nothing was changed: these settings are in force already") {
			t.Errorf("%v: got %q, want an error that nothing was changed", args, o.ErrOut)
		}
	}
	o := limit("history", "provider", "--json")
	o.MustPrint(t)
	if n := strings.Count(o.Out, `"revision"`); n != 1 {
		t.Errorf("got %d changes in the history, want 1:\n%s", n, o.Out)
	}
}

// Each undo goes one change further back, and says which.
func TestUndoGoesFurtherBack(t *testing.T) {
	t.Parallel()
	limit := limitOn(t, working(t, limit.Guardrails{}))
	for _, units := range []string{"500", "600", "700"} {
		limit("set", "provider", "--cap", units).MustPrint(t)
	}
	limit("undo", "provider").MustPrint(t, "at most 600 in any 1s", "undo of revision 4")
	limit("undo", "provider").MustPrint(t, "at most 500 in any 1s", "undo of revision 3")
	limit("set", "provider", "--cap", "550").MustPrint(t)
	limit("undo", "provider", "--by", "night shift").MustPrint(t, "at most 500 in any 1s", "undo of revision 7", "by night shift")
	limit("undo", "provider").MustPrint(t, "at most 400 in any 1s", "undo of revision 2")
	limit("undo", "provider").MustFail(t, "no operator has changed the limit, as far as the history goes")
	limit("history", "provider").MustPrint(t, "cap 700 → 600", "cap 600 → 500", "cap 500 → 400")
}

// A burst that leaves less than half of the cap is refused; one that leaves less than
// nine tenths is warned of. The step that max_step allows is one of the rate that
// can be sustained.
func TestABurstThatLeavesNothing(t *testing.T) {
	t.Parallel()
	limit := limitOn(t, working(t, limit.Guardrails{MaxStep: 1.5}))
	limit("set", "provider", "--burst", "400").MustFail(t, "burst: 400: leaves 0.002 of the cap for a steady rate, since a burst may come in any window; at least 0.5 is to be left, so at most 189; nothing was changed: --force passes it")
	limit("set", "provider", "--burst", "180").MustFail(t, "max_step: from 378.4 to 209.1 calls a second that can be sustained is a step of 1.81 times")
	limit("set", "provider", "--burst", "60").MustPrint(t, "warning", "19 %", "of the cap is given up for good")
	limit("set", "provider", "--burst", "400", "--force").MustPrint(t, "burst 400")
	limit("set", "provider", "--horizon", "300ms").MustPrint(t, "burst 400") // what was forced stays
}

// A wait fails where no node is there, or one is missing; --allow-missing says that
// this is known.
func TestAWaitForNodesThatAreNotThere(t *testing.T) {
	t.Parallel()
	limitOn(t, seeded(t))("set", "provider", "--cap", "300", "--wait").MustFail(t, "no node works with this limit; it is in force for those that start")
	limitOn(t, seeded(t))("set", "provider", "--cap", "300", "--wait", "--allow-missing").MustPrint(t, "at most 300 in any 1s")

	addr := working(t, limit.Guardrails{})
	rdb := redisclient.New(redisclient.Options{Addrs: []string{addr}})
	t.Cleanup(func() { _ = rdb.Close() })
	now, err := rdb.Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	for name, ago := range map[string]time.Duration{"frozen-0123456789abcdef": 20 * time.Second, "dead-0123456789abcdef": 2 * time.Minute, "node-1-0123456789abcdef": 30 * time.Second} {
		seen := fmt.Sprint("0 ", now.Add(-ago).UnixMicro(), " 0")
		if err := rdb.HSet(t.Context(), "dispatcher:{default}:nodes:provider", name, seen).Err(); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	limitOn(t, addr)("set", "provider", "--cap", "300", "--wait").MustFail(t, "revision 2 is in force on 1 of 2 nodes; frozen was not seen for 20")
	if took := time.Since(begin); took > 4*time.Second {
		t.Errorf("the wait for a node that is missing took %v, want it to end when the others know", took)
	}
	limitOn(t, addr)("set", "provider", "--cap", "200", "--wait", "--allow-missing").MustPrint(t, "at most 200 in any 1s")
	limitOn(t, addr)("set", "provider", "--cap", "250", "--allow-missing").MustFail(t, "goes with --wait")
	limitOn(t, addr)("get", "provider").MustPrint(t, "in force on 1/2 nodes, not yet on frozen (not seen for 2")
}

func TestARefusedChangeSaysWhichFlagAndChangesNothing(t *testing.T) {
	t.Parallel()
	limit := limitOn(t, working(t, limit.Guardrails{MaxCap: 900, MaxStep: 2}))
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"set", "provider", "--cap", "901"}, "max_cap: a cap of 901 is above the ceiling of 900; nothing was changed: --force"},
		{[]string{"set", "provider", "--cap", "100"}, "max_step: from 378.4 to 94.61 calls a second that can be sustained is a step of 4 times, and 2 is the most; nothing was changed"},
		{[]string{"set", "provider", "--max-step", "0.5"}, "0.5: must be above 1, or 0 for none (--max-step); nothing was changed"},
		{[]string{"set", "provider", "--max-cap", "399"}, "(--max-cap); nothing was changed"},
		{[]string{"set", "provider", "--cap", "500", "--for", "10ms"}, "10ms: must be from 1s to 744h0m0s (--for); nothing was changed"},
		{[]string{"pause", "provider", "--for", "0s"}, "(--for); nothing was changed"},
		{[]string{"pause", "provider", "--for", "-5s"}, "(--for); nothing was changed"},
		{[]string{"pause", "provider", "--if-revision", "0"}, "(--if-revision); nothing was changed"},
		{[]string{"pause", "provider", "--if-revision", "9"}, "revision 9 was expected, but 1 is in force"},
		{[]string{"pause", "provider", "--why", strings.Repeat("x", 201)}, "(--why); nothing was changed"},
		{[]string{"undo", "provider"}, "the history does not hold it; nothing was changed"},
		{[]string{"undo", "provider", "--to", "-1"}, "--to -1: must be at least 1"},
		{[]string{"history", "provider", "-n", "0"}, "must be at least 1"},
		{[]string{"history", "nobody"}, "no such limit"},
	} {
		limit(row.args...).MustFail(t, row.want)
	}
	limit("get", "provider").MustPrint(t, "at most 400 in any 1s, burst 1\n", "revision", "seeded from a file")
	limit("set", "provider", "--cap", "100", "--force").MustPrint(t, "at most 100 in any 1s")
}

func TestAWaitNamesTheNodeThatLacksTheChange(t *testing.T) {
	t.Parallel()
	addr := working(t, limit.Guardrails{})
	rdb := redisclient.New(redisclient.Options{Addrs: []string{addr}})
	t.Cleanup(func() { _ = rdb.Close() })
	now, err := rdb.Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	// Seen a little in the future, so that it does not count as gone for longer than the wait.
	seen := fmt.Sprint("0 ", now.Add(3500*time.Millisecond).UnixMicro())
	if err := rdb.HSet(t.Context(), "dispatcher:{default}:nodes:provider", "deaf-0123456789abcdef", seen).Err(); err != nil {
		t.Fatal(err)
	}
	o := limitOn(t, addr)("set", "provider", "--cap", "300", "--wait")
	o.MustFail(t, "revision 2 is in force on 1 of 2 nodes; deaf was not seen for ")
	if !strings.Contains(o.Out, "at most 300 in any 1s") {
		t.Errorf("got %q, want to see the limit that was set all the same", o.Out)
	}
}

// A guard that is stated holds until auto gives it back to the fleet; limit get
// says which it is.
func TestGuardIsFixedAndGivenBack(t *testing.T) {
	t.Parallel()
	limit := limitOn(t, seeded(t))
	limit("get", "provider").MustPrint(t, "auto: lateness 50ms, spread 7ms; the fleet has seen no reason")
	limit("set", "provider", "--guard", "15ms").MustPrint(t, "stated: lateness 8ms", "but auto in this configuration")
	limit("set", "provider", "--guard", "auto", "--spread", "2ms").MustPrint(t, "auto: lateness 8ms, spread 2ms")
	limit("set", "provider", "--lateness", "5ms").MustFail(t, "is chosen by the fleet while the guard is auto; state the guard as well (--lateness); nothing was changed")
	limit("set", "provider", "--guard", "soon").MustFail(t, "guard: \"soon\": must be auto, or a duration with a unit, such as 10ms (--guard); nothing was changed")
	o := limit("get", "provider", "--json")
	o.MustPrint(t, `"guard_auto":true`, `"guard_s":0.01`, `"spread_s":0.002`)
}

// A slowdown is shown with its reason, an operator ends it, and the history has both.
func TestASlowdownIsShownAndReleased(t *testing.T) {
	t.Parallel()
	addr := seeded(t)
	run := limitOn(t, addr)
	run("release", "provider").MustPrint(t)
	if o := run("get", "provider"); strings.Contains(o.Out, "effective cap") {
		t.Errorf("got an effective cap of a limit that is not slowed down:\n%s", o.Out)
	}
	rdb := redisclient.New(redisclient.Options{Addrs: []string{addr}})
	defer func() { _ = rdb.Close() }()
	slow := slowdown()
	if err := rdb.HSet(t.Context(), "dispatcher:{default}:limit:provider", "slowdown", slow.Pack()).Err(); err != nil {
		t.Fatal(err)
	}
	run("get", "provider").MustPrint(t, "effective cap", "200", "the provider refused 50% of 300 units", "blocked until", "limit release ends it")
	state := shownLimit(t, run("get", "provider", "--json").Out)
	if s := state.Slowdown; s == nil || s.EffectiveCap != 200 || s.Granted != 20 || s.BlockedUntil == "" || s.Why != slow.Why {
		t.Errorf("got %+v", s)
	}
	run("release", "provider", "--by", "").MustFail(t, "by: \"\": must not be empty")
	run("release", "provider", "--why", "they raised our quota", "--by", "ann").MustPrint(t, "at most 400 in any 1s")
	run("history", "provider").MustPrint(t, "released by hand: they raised our quota", "ann")
	o := run("history", "provider", "--json")
	var lines []limits.Event
	if err := json.Unmarshal([]byte(o.Out), &lines); err != nil || len(lines) != 1 || lines[0].By != "ann" || lines[0].At == "" {
		t.Errorf("got %+v and %v of\n%s", lines, err, o.Out)
	}
	run("set", "provider", "--ignore-throttled", "true").MustPrint(t, "ignore_throttled", "true")
	if o := run("release", "nobody"); o.Err == nil {
		t.Errorf("got no error for a limit that does not exist:\n%s", o.Out)
	}
}
