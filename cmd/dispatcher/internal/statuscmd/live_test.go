package statuscmd

import (
	"errors"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"dispatcher/internal/figures"
	"dispatcher/internal/limits"
	"dispatcher/internal/overview"
	"dispatcher/throttle/limit"
)

// fixed is a fleet of which all sections have something to show.
func fixed() picture {
	var s limit.Settings
	s.Cap, s.Window, s.Burst, s.Algorithm = 150, time.Second, 1, limit.TokenBucket
	s.Revision, s.By, s.Why = 7, "ops@host", "backlog after the outage"
	s.Changed, s.RevertAt = time.Unix(1_700_000_000, 0), time.Unix(1_700_000_600, 0)
	s.RevertTo = s.Terms
	s.RevertTo.Cap = 300
	left, drain := 560.0, 40.0
	f := &overview.Fleet{
		At:     "2023-11-14T22:14:00.000000Z",
		Health: overview.Health{State: overview.Limited, Warn: true, Text: "The limit provider holds the jobs up, more nodes would not help: 1204 jobs wait.", Lacks: "node-3 was not seen for 12 s"},
		Limit: &limits.Document{
			Name: "provider", Namespace: "default", Settings: s, RevertInS: &left, InForce: limits.InForce{Nodes: 2, Of: 3, Lacking: []string{"node-3"}},
			Slowdown: &limits.Slowdown{EffectiveCap: 98, Since: "2023-11-14T22:13:00.000000Z", BlockedUntil: "2023-11-14T22:14:30.000000Z", Why: "the provider refused 38% of 408 units"},
		},
		Lanes: []overview.Lane{
			{Lane: figures.Lane{Name: "codes", Waiting: 4, InFlight: 2, OldestS: 0.5, PerS: 20}, DrainS: &drain},
			{Lane: figures.Lane{Name: "a-lane-with-a-very-long-name-indeed", Waiting: 1200, InFlight: 12, Asleep: 3, Delayed: 9, OldestS: 4000}},
		},
		Limits: []overview.Limit{{Name: "provider", Waiting: 256, Binds: 0.98}, {Name: "recipient", Waiting: 7, Binds: 0.2}},
		Nodes: []overview.Node{
			{Name: "node-1", InForce: true, Share: 0.6, AgeS: 0.4, Figures: &overview.Figures{Ready: true, Version: "devel " + strings.Repeat("a1", 20) + " go1.26", LateSlots: 3}},
			{Name: "node-2", InForce: true, Share: 0.4, Figures: &overview.Figures{Version: "v1.2.3 go1.26", Checks: []figures.Check{{Name: "kafka", Error: "no broker answers at 10.1.2.3:9092 or at 10.1.2.4:9092\x1b[2J"}}}},
			{Name: "node-3", Missing: true, SeenS: 12, Stale: true},
		},
		Topics:      []overview.Topic{{Name: "jobs", Partitions: 12, Lag: 1204}},
		DeadLetters: map[string]float64{"permanent": 3, "exhausted": 1},
		Forecast:    overview.Forecast{Jobs: 1218, PerS: 97, LeftS: &drain, GoneAt: "2023-11-14T22:14:40.000000Z"},
	}
	var c figures.Calls
	for i := range minute {
		calls, units := float64(min(150, 5*i)), 150.0
		if i < 10 {
			c.Calls, c.Cap, c.Refused, c.Units = append(c.Calls, nil), append(c.Cap, nil), append(c.Refused, nil), append(c.Units, nil)
			continue
		}
		c.Calls, c.Cap, c.Refused, c.Units = append(c.Calls, &calls), append(c.Cap, &units), append(c.Refused, new(float64)), append(c.Units, &calls)
	}
	return picture{Fleet: f, Calls: c}
}

const at80 = `The limit provider holds the jobs up, more nodes would not help: 1204 jobs wait.
node-3 was not seen for 12 s

limit provider: at most 150 in any 1s, burst 1
  effective cap  98 since 2023-11-14T22:13:00Z: the provider refused 38% of 408
                 units; blocked until 2023-11-14T22:14:30Z
  override       until 2023-11-14T22:23:20Z (9m20s left), then at most 300 in
                 any 1s, burst 1
  revision       7 of 2023-11-14T22:13:20Z by ops@host: backlog after the outage
  in force       on 2/3 nodes, not yet on node-3
  calls          ··········▃▃▄▄▄▅▅▅▅▆▆▆▆▇▇▇▇█████████████████████████████████
                 129 a second over 50 s, 86 % of the cap
`

func TestTheLiveViewFitsTheTerminal(t *testing.T) {
	t.Parallel()
	for _, width := range []int{120, 80, 50, 30} {
		text := pageOf(fixed(), width, false).text()
		for line := range strings.Lines(text) {
			if w := lipgloss.Width(strings.TrimSuffix(line, "\n")); w > width && width >= 50 {
				t.Errorf("at %d columns: got a line of %d\n%s", width, w, line)
			}
			if strings.ContainsRune(line, '\x1b') {
				t.Errorf("got %q, which can act on the terminal", line)
			}
		}
	}
	wide := pageOf(fixed(), 80, false).text()
	if !strings.HasPrefix(wide, at80) {
		t.Errorf("got\n%s\nwant it to begin with\n%s", wide, at80)
	}
	for _, want := range []string{
		"LANE", "IN FLIGHT", "a-lane-with-a-very-long…", "1h06m", "no end", "98 %", "\nnode-1  ready ", "kafka: no broker", "missing for 12s", "60 %", "dead letters   1 exhausted, 3 permanent",
	} {
		if !strings.Contains(wide, want) {
			t.Errorf("at 80 columns: got\n%s\nwant it to hold %q", wide, want)
		}
	}
	narrow := pageOf(fixed(), 50, false).text()
	for _, want := range []string{"a-lan…", "OLDEST", "DRAIN", "kafka: no bro", "missing for 12s"} {
		if !strings.Contains(narrow, want) {
			t.Errorf("at 50 columns: got\n%s\nwant it to hold %q", narrow, want)
		}
	}
	if piped := pageOf(fixed(), 0, false).text(); !strings.Contains(piped, "a-lane-with-a-very-long-name-indeed") || !strings.Contains(piped, "10.1.2.4:9092") {
		t.Errorf("got\n%s\nwant nothing cut where there is no terminal", piped)
	}
}

func TestAForecastWithoutAnEndSaysWhy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		perS         float64
		status, cell string
	}{
		{0, "never: 30000 jobs wait, and none is settled", "gone in       never"},
		{1e-8, "not within a year: 30000 jobs wait, and hardly any is settled", "gone in       not within a year"},
	} {
		f := overview.Forecast{Jobs: 30_000, PerS: c.perS}
		if got := gone(f); got != c.status {
			t.Errorf("status at %g a second: got %q, want %q", c.perS, got, c.status)
		}
		var out strings.Builder
		if err := printForecast(&out, []overview.Preview{{Forecast: f}}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), c.cell) {
			t.Errorf("forecast at %g a second: got\n%s\nwant it to hold %q", c.perS, out.String(), c.cell)
		}
	}
}

func updated(t *testing.T, v live, msg tea.Msg) live {
	t.Helper()
	m, _ := v.Update(msg)
	next, ok := m.(live)
	if !ok {
		t.Fatalf("got %T", m)
	}
	return next
}

func TestTheLiveViewKeepsAnOldPicture(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1_700_000_000, 0)
	v := live{read: func() (picture, error) { return fixed(), nil }, p: fixed(), at: begin, now: begin}
	v = updated(t, v, tea.WindowSizeMsg{Width: 80, Height: 60})
	if text := v.View().Content; strings.Contains(text, "OLD:") || !strings.Contains(text, "q ends") || strings.Contains(text, "more lines") {
		t.Errorf("got\n%s\nwant the whole picture", text)
	}
	v = updated(t, v, tick(begin.Add(time.Second)))
	if !v.reading {
		t.Fatal("nothing is read after a second")
	}
	v = updated(t, v, answer{err: errors.New("dial tcp: refused\x1b[2J")})
	v = updated(t, v, tick(begin.Add(7*time.Second)))
	text := v.View().Content
	for _, want := range []string{"OLD: this is the picture of 2023-11-14T22:14:00Z, 7.0s ago", `refused\x1b[2J`, "1204 jobs wait"} {
		if !strings.Contains(text, want) {
			t.Errorf("got\n%s\nwant it to hold %q", text, want)
		}
	}
	v = updated(t, v, answer{p: fixed()})
	if text := v.View().Content; strings.Contains(text, "OLD:") {
		t.Errorf("got\n%s\nwant a new picture", text)
	}
	v.reading = true // Redis hangs
	v = updated(t, v, tick(begin.Add(20*time.Second)))
	if text := v.View().Content; !strings.Contains(text, "13s ago") {
		t.Errorf("got\n%s\nwant the age of the picture", text)
	}
}

func TestTheLiveViewScrollsAndEnds(t *testing.T) {
	t.Parallel()
	v := live{p: fixed()}
	v = updated(t, v, tea.WindowSizeMsg{Width: 50, Height: 10})
	if text := v.text(); strings.Count(text, "\n") != 9 || !strings.Contains(text, "more lines") {
		t.Errorf("got\n%s\nwant ten lines", text)
	}
	for range 20 {
		v = updated(t, v, tea.KeyPressMsg{Code: tea.KeyPgDown})
	}
	if text := v.text(); strings.Count(text, "\n") != 9 || !strings.Contains(text, "2023-11-14T22:14:00Z, namespace") {
		t.Errorf("got\n%s\nwant the last ten lines", text)
	}
	v = updated(t, v, tea.KeyPressMsg{Code: tea.KeyHome})
	if text := v.text(); !strings.HasPrefix(text, "\x1b[1;33mThe limit provider") {
		t.Errorf("got\n%s\nwant the first line again", text)
	}
	for _, key := range []tea.KeyPressMsg{{Code: 'q', Text: "q"}, {Code: 'c', Mod: tea.ModCtrl}} {
		_, cmd := v.Update(key)
		if cmd == nil {
			t.Fatalf("%v does not end the view", key)
		}
		if _, ok := cmd().(tea.QuitMsg); !ok {
			t.Errorf("%v does not end the view", key)
		}
	}
}

func TestSpans(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[float64]string{0: "0.0s", 9.94: "9.9s", 12: "12s", 119: "119s", 120: "2m00s", 3599: "59m59s", 3600: "1h00m", 90000: "1d01h", 1e12: "11574d", -1: "0.0s"} {
		if got := span(seconds); got != want {
			t.Errorf("%v: got %s, want %s", seconds, got, want)
		}
	}
}
