package statuscmd

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/cmd/dispatcher/internal/clitest"
	"dispatcher/internal/background"
	"dispatcher/internal/figures"
	"dispatcher/internal/overview"
	"dispatcher/internal/redisclient"
	"dispatcher/throttle"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
)

// fleet is a Redis with one node that works and says figures.
type fleet struct {
	redis *miniredis.Miniredis
	stop  func() // the node says no more
}

func newFleet(t *testing.T, f figures.Figures) *fleet {
	t.Helper()
	s := &fleet{redis: miniredis.RunT(t)}
	rdb := redisclient.New(redisclient.Options{Addrs: []string{s.redis.Addr()}})
	t.Cleanup(func() { _ = rdb.Close() })
	l, err := throttle.New(throttle.Options{
		Redis: rdb, Namespace: "default", Name: "provider", Node: "node-1", Identity: throttle.IdentityNone,
		Limit: limit.Spec{Terms: limit.Terms{Contract: limit.Contract{
			Cap: 400, Window: time.Second, Burst: 1, Guard: limit.DefaultGuard, Lateness: limit.DefaultLateness, Spread: limit.DefaultSpread, Horizon: limit.DefaultHorizon,
		}}, Guardrails: limit.Guardrails{MaxCap: 1000}},
	})
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, l.Run)
	operator, err := control.NewControl(rdb, "default", "provider")
	if err != nil {
		t.Fatal(err)
	}
	clitest.Await(t, time.Minute, "the node knows the limit, and the limit has begun", func() bool { // all slots of a race build on a slow machine may be late
		set, err := operator.Get(t.Context())
		there, failed := operator.Nodes(t.Context())
		begins, _ := strconv.ParseInt(s.redis.HGet(operator.Keys.Limit, "not_before"), 10, 64)
		return err == nil && failed == nil && len(there) == 1 && there[0].Has(set) && begins <= time.Now().UnixMicro()
	})
	f.Name, f.Ready, f.Version, f.Cap, f.Eff = "node-1", true, "v1", 400, 400
	p := figures.New(figures.Options{
		Redis: rdb, Namespace: "default", Node: "node-1", Logger: slog.New(slog.DiscardHandler), Take: func(context.Context) figures.Figures { return f },
		Rules: func(int64) {},
	})
	s.stop = background.Run(t, p.Run)
	clitest.Await(t, time.Minute, "the node says something", func() bool { return s.redis.Exists("dispatcher:{default}:figures") })
	return s
}

func (s *fleet) run(t *testing.T, command func(*cli.Settings) *cobra.Command, args ...string) clitest.Outcome {
	t.Helper()
	return clitest.Run(t.Context(), command, "", nil, append(args, "--set", "redis.addrs="+s.redis.Addr())...)
}

func busy() figures.Figures {
	return figures.Figures{
		Lanes: []figures.Lane{{
			Name: "default", Waiting: 1200, InFlight: 3, PerS: 100, OldestS: 12, Fetched: 1000, Expires: []figures.Expiring{{Among: 1000, Jobs: 1000, InS: 3}},
		}},
		Topics:      []figures.Topic{{Name: "jobs", Lag: 1203, Partitions: 6}},
		Limits:      []figures.Limit{{Name: "provider", Waiting: 256, Binds: 1}},
		DeadLetters: map[string]float64{"permanent": 3},
		Keys:        []figures.Key{{Hash: "00112233445566778899aabbccddeeff", Jobs: 700, AtLeast: true}, {Limit: "recipient", Hash: "ff112233445566778899aabbccddeeff", Jobs: 30}},
	}
}

func TestStatusPrintsTheFleetOnce(t *testing.T) {
	t.Parallel()
	s := newFleet(t, busy())
	s.run(t, New, "status").MustPrint(t,
		"The limit provider holds the jobs up, more nodes would not help: 1203 jobs wait.\n", "limit provider: at most 400 in any 1s, burst 1\n", "seeded from a file", "on 1/1 nodes",
		"LANE     WAITING  IN FLIGHT", "default     1200          3", "provider      256  100 %", "(ordering key)  00112233445566778899aabbccddeeff  700 or more\n", "recipient       ff112233445566778899aabbccddeeff  30\n", "node-1  ready", "jobs   1203           6", "3 permanent, since the nodes started", "gone           in 3.0s, at ",
		"expire         0 of 1000 jobs that nodes have fetched, before their turn; not known of 203 others\n")
	s.run(t, New, "status", "--once", "--check").MustPrint(t, "1203 jobs wait")
	var shown overview.Fleet
	o := s.run(t, New, "status", "--json", "--check")
	o.MustPrint(t)
	if err := json.Unmarshal([]byte(o.Out), &shown); err != nil || shown.Health.State != overview.Limited || len(shown.Nodes) != 1 || strings.Count(o.Out, "\n") != 1 {
		t.Errorf("got %v %s, want the overview in one line", err, o.Out)
	}
}

func TestStatusChecksForScripts(t *testing.T) {
	t.Parallel()
	s := newFleet(t, busy())
	s.stop()
	o := s.run(t, New, "status", "--check")
	o.MustFail(t, "somebody should look: Unknown: no node has said anything for a minute. node-1 says nothing of itself")
	if !strings.Contains(o.Out, "says nothing of itself") {
		t.Errorf("got\n%s\nwant the picture as well", o.Out)
	}
	s.run(t, New, "status").MustPrint(t, "Unknown: no node")
	s.run(t, NewForecast, "forecast").MustFail(t, "it is not known how many jobs wait")
	s.redis.SetError("ERR away")
	s.run(t, New, "status").MustFail(t, "status: read limit")
	s.run(t, NewForecast, "forecast").MustFail(t, "forecast: read limit")
}

func TestAFleetThatNeverWorked(t *testing.T) {
	t.Parallel()
	s := &fleet{redis: miniredis.RunT(t)}
	for name, command := range map[string]func(*cli.Settings) *cobra.Command{"status": New, "forecast": NewForecast} {
		s.run(t, command, name).MustFail(t, "no such limit in Redis")
		s.run(t, command, name, "--set", "limits.0.scope=node").MustFail(t, "limits.0.scope: node")
	}
}

func TestForecastPreviewsAChange(t *testing.T) {
	t.Parallel()
	s := newFleet(t, busy())
	forecast := func(args ...string) clitest.Outcome {
		return s.run(t, NewForecast, append([]string{"forecast"}, args...)...)
	}
	forecast().MustPrint(t, "limit         400 in 1s\n", "jobs          1203\n", "rate          396 a second\n", "follows from  the cap\n", "gone in       3.0s\n", "expire        0 of 1000 fetched\n")
	forecast("--cap", "200").MustPrint(t, "NOW", "WITH THE CHANGE", "400 in 1s", "200 in 1s", "198 a second", "6.1s", "0 of 1000 fetched     406 of 1000 fetched")
	forecast("--cap", "2000").MustPrint(t, "limit set would refuse the change unless it is forced: max_cap: a cap of 2000 is above the ceiling of 1000")
	forecast("--cap", "0").MustFail(t, "(--cap)")
	forecast("--algorithm", "magic").MustFail(t, "must be one of")
	s.redis.HSet("dispatcher:{default}:figures", "x", "no figures") // as of a newer build
	forecast("--cap", "400").MustPrint(t, "WITH THE CHANGE", "396 a second")
	forecast("extra").MustFail(t, "unknown command")
	var shown overview.Preview
	o := forecast("--cap", "200", "--window", "2s", "--json")
	o.MustPrint(t)
	if err := json.Unmarshal([]byte(o.Out), &shown); err != nil || shown.Cap != 200 || shown.WindowS != 2 || shown.Jobs != 1203 || shown.Since != overview.FromCap || shown.LeftS == nil {
		t.Errorf("got %v %s", err, o.Out)
	}
	if o := s.run(t, NewForecast, "forecast", "--json"); !strings.Contains(o.Out, `"cap":400`) {
		t.Errorf("got %s, want that nothing was changed", o.Out)
	}
}

// The provider leaves 250 units a second. Of a cap of 100 all is left.
func TestForecastPreviewsAChangeOfASlowedFleet(t *testing.T) {
	t.Parallel()
	s := newFleet(t, busy())
	later := time.Now().Add(time.Hour).UnixMicro() // the node judges the slowdown by calls after that, so it stays as it is
	slow := limit.Slowdown{Number: later, Since: later, Units: 250, Effective: 250, Window: time.Second.Microseconds(), Slowed: later}
	var o clitest.Outcome
	clitest.Await(t, time.Minute, "a forecast during which no call of the node ends the slowdown, of a time to come", func() bool {
		const key = "dispatcher:{default}:limit:provider"
		s.redis.HSet(key, "slowdown", slow.Pack())
		o = s.run(t, NewForecast, "forecast", "--cap", "100")
		return s.redis.HGet(key, "slowdown") == slow.Pack()
	})
	o.MustPrint(t, "247.5 a second", "99.01 a second")
}

func TestTheCallsOfTheLastMinute(t *testing.T) {
	t.Parallel()
	one, two := 1.0, 2.0
	p := &page{width: 40}
	picture := fixed()
	picture.Calls = figures.Calls{Calls: []*float64{nil, &one, &two}, Cap: []*float64{nil, &two, &two}, Refused: []*float64{nil, &one, nil}, Units: []*float64{nil, &one, &two}}
	p.calls(picture)
	if got, want := fmt.Sprint(p.lines), "[  calls          ·▅█                  1.5 a second over 2 s,                  75 % of the cap, 1                  refused for their rate]"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	// A call of two units uses twice as much of the cap.
	picture.Limit.Settings.MaxCost = 5
	picture.Calls.Units = []*float64{nil, &two, nil}
	p = &page{width: 80}
	p.calls(picture)
	if got, want := strings.TrimSpace(p.lines[1]), "1.5 a second over 2 s, 50 % of the cap in 1 units a second, 1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
