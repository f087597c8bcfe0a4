package overview

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dispatcher/internal/figures"
	"dispatcher/internal/limits"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/phase"
)

// working is a node that says this of itself.
func working(name string, f Figures) Node {
	f.Name, f.Ready = name, true
	return Node{Name: name, Figures: &f, InForce: true}
}

// fleet is one of these nodes under 300 units a second.
func fleet(settings limit.Settings, nodes ...Node) *Fleet {
	f := &Fleet{Limit: &limits.Document{Name: "provider", Settings: settings}, Nodes: nodes, now: time.Unix(1_700_000_000, 0)}
	f.join()
	f.Forecast = f.forecast(settings)
	f.Health = f.judge()
	return f
}

func settings() (s limit.Settings) {
	s.Cap, s.Window, s.Guard, s.Burst = 300, time.Second, 10*time.Millisecond, 1
	s.Algorithm = limit.TokenBucket
	return s
}

func lanes(all ...figures.Lane) Figures { return Figures{Lanes: all} }

func TestLanesTopicsAndSharesAddUp(t *testing.T) {
	t.Parallel()
	a := lanes(figures.Lane{Name: "otp", Waiting: 10, PerS: 5, OldestS: 1}, figures.Lane{Name: "bulk", Waiting: 100, PerS: 50})
	a.Topics, a.CallsPerS, a.DeadLetters = []Topic{{Name: "jobs", Partitions: 2, Lag: 110}}, 30, map[string]float64{"permanent": 2}
	b := lanes(figures.Lane{Name: "otp", InFlight: 5, PerS: 5, OldestS: 7}, figures.Lane{Name: "bulk", Waiting: 300, PerS: 50})
	b.Topics, b.CallsPerS, b.DeadLetters = []Topic{{Name: "jobs", Partitions: 1, Lag: 300}}, 10, map[string]float64{"permanent": 1}
	old := working("old", lanes(figures.Lane{Name: "bulk", Waiting: 1e6}))
	old.Stale, old.AgeS = true, 8
	f := fleet(settings(), working("n1", a), working("n2", b), old)
	if len(f.Lanes) != 2 || f.Lanes[0].Name != "otp" || f.Lanes[0].Waiting != 10 || f.Lanes[0].InFlight != 5 || f.Lanes[0].OldestS != 7 || f.Lanes[1].Waiting != 400 {
		t.Errorf("got the lanes %+v, want those of both nodes that count, in order", f.Lanes)
	}
	if d := f.Lanes[1].DrainS; d == nil || *d != 4 {
		t.Errorf("got %v, want 400 jobs gone in 4 s at 100/s", d)
	}
	if len(f.Topics) != 1 || f.Topics[0].Partitions != 3 || f.Topics[0].Lag != 410 || f.DeadLetters["permanent"] != 3 {
		t.Errorf("got %+v and %v", f.Topics, f.DeadLetters)
	}
	if f.Nodes[0].Share != 0.75 || f.Nodes[1].Share != 0.25 || f.Nodes[2].Share != 0 {
		t.Errorf("got the shares %v %v %v, want 3:1 and none of figures that are old", f.Nodes[0].Share, f.Nodes[1].Share, f.Nodes[2].Share)
	}
	if !strings.Contains(f.Health.Lacks, "old says nothing") || !f.Health.Warn {
		t.Errorf("got %+v, want the silent node named", f.Health)
	}
}

// The forecast follows the cap where that binds, and the present rate where something else holds jobs up.
func TestForecast(t *testing.T) {
	t.Parallel()
	busy := lanes(figures.Lane{Name: "default", Waiting: 30_000, PerS: 100})
	free := fleet(settings(), working("n1", busy)).Forecast
	if free.Since != FromRate || *free.LeftS != 300 || free.GoneAt != "2023-11-14T22:18:20.000000Z" {
		t.Errorf("got %+v, want 300 s at the present rate", free)
	}
	busy.Limits = []Limit{{Name: "provider", Binds: 0.9}}
	s := settings()
	bound := fleet(s, working("n1", busy)).Forecast
	if want := 30_000 / (300 * s.UsableShare()); bound.Since != FromCap || *bound.LeftS < want*0.999 || *bound.LeftS > want*1.001 {
		t.Errorf("got %+v, want %v s at the cap's rate", bound, want)
	}
	s.Paused = true
	if paused := fleet(s, working("n1", busy)).Forecast; paused.LeftS != nil || paused.GoneAt != "" {
		t.Errorf("got %+v of a paused limit, want no end", paused)
	}
	if idle := fleet(settings(), working("n1", lanes(figures.Lane{Name: "default"}))).Forecast; idle.LeftS == nil || *idle.LeftS != 0 {
		t.Errorf("got %+v of an idle fleet, want it gone now", idle)
	}
}

// The rate of a fleet that settles nothing decays towards 0. The time that follows from it would be past what a date can hold.
func TestAForecastBeyondAYearIsNone(t *testing.T) {
	t.Parallel()
	at := func(perS float64) *Fleet {
		return fleet(settings(), working("n1", lanes(figures.Lane{Name: "default", Waiting: 30_000, PerS: perS})))
	}
	for _, perS := range []float64{0.0009, 1e-8, 5e-324, 0} {
		f := at(perS)
		if f.Forecast.LeftS != nil || f.Forecast.GoneAt != "" {
			t.Errorf("30000 jobs at %g a second: got %s, want none", perS, shown(f.Forecast))
		}
		if d := f.Lanes[0].DrainS; d != nil {
			t.Errorf("30000 jobs of a lane at %g a second: got %g s, want none", perS, *d)
		}
	}
	if f := at(0.001).Forecast; f.LeftS == nil || math.Round(*f.LeftS) != 3e7 || f.GoneAt != "2024-10-27T03:33:20.000000Z" {
		t.Errorf("30000 jobs at 0.001 a second: got %s, want 3e7 s, at 2024-10-27T03:33:20.000000Z", shown(f))
	}
}

func shown(c Forecast) string {
	if c.LeftS == nil {
		return fmt.Sprintf("none, at %q", c.GoneAt)
	}
	return fmt.Sprintf("%g s, at %q", *c.LeftS, c.GoneAt)
}

func TestHealthNamesWhatHoldsJobsUp(t *testing.T) {
	t.Parallel()
	busy := func(limits ...Limit) Figures {
		f := lanes(figures.Lane{Name: "default", Waiting: 1204, PerS: 100})
		f.Limits = limits
		return f
	}
	paused := settings()
	paused.Paused = true
	ends, stays := paused, paused
	ends.RevertAt = time.Unix(1_700_000_900, 0).Add(72 * time.Hour)
	stays.RevertAt, stays.RevertTo.Paused = ends.RevertAt, true
	silent := working("n1", busy())
	silent.Stale, silent.AgeS = true, 12
	down := busy()
	down.ProviderDown = true
	heldJobs := busy()
	heldJobs.Held = 700
	unready := working("n1", busy())
	unready.Figures.Ready, unready.Figures.Checks = false, []figures.Check{{Name: "kafka", Error: "no broker answers"}}
	cooling, changing := busy(), busy()
	cooling.Phase, cooling.Note = string(phase.Cooldown), "cooldown until 2023-11-17T22:28:20Z: nothing is sent"
	changing.Phase, changing.Note = string(phase.Changing), "new settings begin at 2023-11-17T22:28:20Z"
	for name, tc := range map[string]struct {
		f    *Fleet
		want State
		text string
	}{
		"cools down": {fleet(settings(), working("n1", cooling)), Cooldown, "Cooldown until 2023-11-17T22:28:20Z: nothing is sent; 1204 jobs wait."},
		"changes":    {fleet(settings(), working("n1", changing), working("n2", changing)), Changing, "New settings begin at 2023-11-17T22:28:20Z; 2408 jobs wait"},
		"one still changes": {
			fleet(settings(), working("n1", changing), working("n2", busy(Limit{Name: "provider", Binds: 1}))), Limited, "The limit provider",
		},
		"no node":   {fleet(settings()), Unknown, "No node works"},
		"silent":    {fleet(settings(), silent), Unknown, "for 12s"},
		"not ready": {fleet(settings(), unready), NotReady, "kafka: no broker answers"},
		"paused":    {fleet(paused, working("n1", busy())), Paused, ": 1204 jobs wait."},
		"ends":      {fleet(ends, working("n1", busy())), Paused, "Paused until 2023-11-17T22:28:20Z, last"},
		"stays":     {fleet(stays, working("n1", busy())), Paused, "Paused until somebody resumes it, last"},
		"provider":  {fleet(settings(), working("n1", down)), Provider, "does not answer: 1204 jobs wait"},
		"idle":      {fleet(settings(), working("n1", Figures{})), Idle, "No job waits."},
		"limit":     {fleet(settings(), working("n1", busy(Limit{Name: "provider", Binds: 1}))), Limited, "The limit provider holds the jobs up"},
		"gate":      {fleet(settings(), working("n1", busy(Limit{Name: "provider"}, Limit{Name: "recipient", Binds: 0.8, Waiting: 800}))), Gated, "The limit recipient holds 800 jobs up"},
		"a paused gate": {
			fleet(settings(), working("n1", busy(Limit{Name: "provider", Binds: 1}, Limit{Name: "otp", Waiting: 800, Paused: &figures.Pause{By: "anna"}}))), Gated,
			"The limit otp is paused until somebody resumes it, last change by anna: 800 jobs wait for it, 1204 jobs wait in all.",
		},
		"held":    {fleet(settings(), working("n1", heldJobs)), Held, "Rules of operators hold 700 jobs: 1204 jobs wait in all."},
		"working": {fleet(settings(), working("n1", busy(Limit{Name: "provider", Binds: 0.1}))), Working, "No limit holds the jobs up"},
	} {
		if tc.f.Health.State != tc.want || !strings.Contains(tc.f.Health.Text, tc.text) {
			t.Errorf("%s: got %+v, want %s and %q", name, tc.f.Health, tc.want, tc.text)
		}
	}
	idle := Limit{Name: "otp", Paused: &figures.Pause{By: "anna"}}
	if h := fleet(settings(), working("n1", busy(Limit{Name: "provider"}, idle))).Health; h.State != Working || h.Warn {
		t.Errorf("got %+v, want no warning of a paused limit for which no job waits", h)
	}
	idle.Waiting = 1
	if h := fleet(settings(), working("n1", busy(Limit{Name: "provider"}, idle))).Health; h.Limit != "otp" || !h.Warn {
		t.Errorf("got %+v, want a warning of the paused limit for which a job waits", h)
	}
	blocked := fleet(settings(), working("n1", busy()))
	blocked.Limit.Slowdown = &limits.Slowdown{EffectiveCap: 150, BlockedUntil: "2023-11-14T22:18:20.000000Z"}
	if h := blocked.judge(); h.State != Blocked || !strings.Contains(h.Text, "until 2023-11-14T22:18:20Z") {
		t.Errorf("got %+v, want the block named", h)
	}
	slowed := fleet(settings(), working("n1", busy(Limit{Name: "provider", Binds: 1})))
	slowed.Limit.Slowdown = &limits.Slowdown{EffectiveCap: 150}
	if h := slowed.judge(); h.State != Slowed || !strings.Contains(h.Text, "lowered to 150") {
		t.Errorf("got %+v, want the slowdown named", h)
	}
}

// Nodes without jobs make no call, so their breakers say nothing of the provider: some were never opened, others never close.
func TestTheProviderIsJudgedByNodesThatHaveJobs(t *testing.T) {
	t.Parallel()
	node := func(name string, jobs int64, down bool) Node {
		f := lanes(figures.Lane{Name: "default", Waiting: jobs, PerS: 100})
		f.ProviderDown = down
		return working(name, f)
	}
	for name, tc := range map[string]struct {
		nodes []Node
		want  State
		lacks string
	}{
		"all with jobs are down": {
			[]Node{node("n1", 500, true), node("n2", 500, true), node("n3", 0, false)},
			Provider,
			"n1: the provider does not answer it; n2: the provider does not answer it",
		},
		"one with jobs is down":        {[]Node{node("n1", 500, true), node("n2", 500, false)}, Working, "n1: the provider does not answer it"},
		"down since the last job, one": {[]Node{node("n1", 0, true), node("n2", 500, false)}, Working, ""},
		"down since the last job, all": {[]Node{node("n1", 0, true), node("n2", 0, true)}, Idle, ""},
	} {
		if h := fleet(settings(), tc.nodes...).Health; h.State != tc.want || h.Lacks != tc.lacks || h.Warn != (tc.lacks != "") {
			t.Errorf("%s: got %+v, want %s and that it lacks %q", name, h, tc.want, tc.lacks)
		}
	}
}

// Where each job is known by itself, the forecast is that of a walk over all jobs in their order.
func TestExpiringJobsAreThoseOfAWalk(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		perS := rapid.IntRange(0, 5).Draw(t, "rate")
		var said Figures
		served, want := 0, 0
		for lane := range rapid.IntRange(1, 3).Draw(t, "lanes") {
			l := figures.Lane{Name: fmt.Sprint(lane)}
			for place, inS := range rapid.SliceOfN(rapid.IntRange(0, 20), 0, 40).Draw(t, "jobs") {
				l.Waiting, l.Fetched = l.Waiting+1, l.Fetched+1
				if inS == 0 {
					served++ // it never expires
					continue
				}
				l.Expires = append(l.Expires, figures.Expiring{Ahead: place, Among: 1, Jobs: 1, InS: float64(inS)})
				if served >= perS*inS {
					want++
				} else {
					served++
				}
			}
			said.Lanes = append(said.Lanes, l)
		}
		f := fleet(settings(), working("n1", said))
		if got := f.expiring(float64(perS)); got != float64(want) {
			t.Fatalf("got %v jobs that expire at %d a second, want %d", got, perS, want)
		}
		if f.Forecast.Fetched != float64(served+want) || f.Nodes[0].Figures.Lanes[0].Expires != nil {
			t.Fatalf("got %+v and %+v, want %d fetched jobs, and no entries shown", f.Forecast, f.Nodes[0].Figures.Lanes[0], served+want)
		}
	})
}

// A key is known by its hash on all nodes. The fleet names as many as one node does.
func TestKeysAddUpOverNodes(t *testing.T) {
	t.Parallel()
	var a, b Figures
	for i := range figures.MostKeys {
		a.Keys = append(a.Keys, Key{Hash: fmt.Sprint(i), Jobs: 100 - i})
		b.Keys = append(b.Keys, Key{Hash: fmt.Sprint(20 + i), Jobs: 10 - i})
	}
	b.Keys[9] = Key{Hash: "9", Jobs: 50, AtLeast: true}
	b.Keys = append(b.Keys, Key{Limit: "recipient", Hash: "0", Jobs: 95})
	f := fleet(settings(), working("n1", a), working("n2", b))
	if len(f.Keys) != figures.MostKeys || f.Keys[0] != (Key{Hash: "9", Jobs: 141, AtLeast: true}) || f.Keys[1].Jobs != 100 || !slices.Contains(f.Keys, Key{Limit: "recipient", Hash: "0", Jobs: 95}) {
		t.Errorf("got %+v, want the longest backlogs of both nodes", f.Keys)
	}
}

// Two nodes take turns, so a job has those of its place on both nodes before it.
func TestTheForecastCountsTheJobsThatExpire(t *testing.T) {
	t.Parallel()
	said := func(expire ...figures.Expiring) Figures {
		f := lanes(figures.Lane{Name: "otp", Waiting: 300}, figures.Lane{Name: "bulk", Waiting: 20_000, Fetched: 8000, Expires: expire})
		f.Limits = []Limit{{Name: "provider", Binds: 1}}
		return f
	}
	s := settings()
	s.Cap = 1000
	nodes := []Node{working("n1", said(figures.Expiring{Ahead: 1000, Among: 1000, Jobs: 400, InS: 3})), working("n2", said())}
	f := fleet(s, nodes...)
	for rate, want := range map[float64]float64{100: 400, 1200: 200, 2000: 0} { // their turns lie behind 2600 to 4600 jobs
		if got := f.forecastAt(s, rate, true); got.Expire != want || got.Fetched != 16_000 {
			t.Errorf("got %v of %v jobs at %v a second, want %v of 16000", got.Expire, got.Fetched, rate, want)
		}
	}
	if got, want := f.forecastAt(s, 100, true).ExpireText(), "400 of 16000 jobs that nodes have fetched, before their turn; not known of 24600 others"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The cap's rate is one of units, and jobs are what waits.
func TestAForecastTakesJobsForTheUnitsThatTheyCount(t *testing.T) {
	t.Parallel()
	s := settings()
	s.MaxCost = 10
	units := 300 * s.UsableShare()
	said := func(fetched, ofThem int, calls, ofCalls float64) Figures {
		f := lanes(figures.Lane{Name: "default", Waiting: 30_000, Fetched: fetched, Units: ofThem})
		f.Limits, f.CallsPerS, f.UnitsPerS = []Limit{{Name: "provider", Binds: 1}}, calls, ofCalls
		return f
	}
	for name, tc := range map[string]struct {
		f    *Fleet
		cost float64
		from string
		text string
	}{
		"of fetched jobs": {fleet(s, working("n1", said(100, 150, 1, 9)), working("n2", said(100, 350, 1, 9))), 2.5, CostOfJobs, "2.5 units, the mean of the fetched jobs"},
		"of calls":        {fleet(s, working("n1", said(100, 0, 50, 150)), working("n2", said(0, 0, 50, 250))), 4, CostOfCalls, "4 units, the mean of the calls of late"},
		"not known":       {fleet(s, working("n1", said(100, 0, 0, 0))), 1, CostUnknown, "an unknown number of units, taken for one"},
	} {
		if got := tc.f.Forecast; got.Cost != tc.cost || got.CostFrom != tc.from || got.PerS != units/tc.cost || got.CostText() != tc.text {
			t.Errorf("%s: got %+v and %q, want %v jobs a second", name, got, got.CostText(), units/tc.cost)
		}
	}
	if got := fleet(settings(), working("n1", said(100, 250, 1, 9))).Forecast; got.Cost != 1 || got.CostFrom != CostOfLimit || got.CostText() != "" {
		t.Errorf("got %+v, want one unit a job where max_cost is 1", got)
	}
}

// A slowdown leaves so many units a second, whatever the window of the settings that are asked for. It never raises their cap.
func TestAForecastOfOtherSettingsKeepsToTheirCap(t *testing.T) {
	t.Parallel()
	busy := lanes(figures.Lane{Name: "default", Waiting: 30_000, PerS: 100})
	busy.Limits = []Limit{{Name: "provider", Binds: 1}}
	f := fleet(settings(), working("n1", busy))
	f.Limit.Slowdown = &limits.Slowdown{EffectiveCap: 250, State: limit.Slowdown{Number: 1, Slowed: 1, Effective: 250, Units: 250, Window: time.Second.Microseconds()}}
	for name, tc := range map[string]struct {
		change func(*limit.Settings)
		want   float64 // units a second, before the guard takes its share
	}{
		"the settings in force": {func(*limit.Settings) {}, 250},
		"a lower cap":           {func(s *limit.Settings) { s.Cap = 100 }, 100},
		"another window":        {func(s *limit.Settings) { s.Cap, s.Window = 12_000, time.Minute }, 200},
		"no slowdown any more":  {func(s *limit.Settings) { s.IgnoreThrottled = true }, 300},
	} {
		s := settings()
		tc.change(&s)
		if got, want := f.forecastAt(s, f.capRate(s), f.binds()).PerS, tc.want*s.UsableShare(); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: got %g jobs a second, want %g", name, got, want)
		}
	}
}
