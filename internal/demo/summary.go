package demo

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"dispatcher/internal/embedded"
	"dispatcher/internal/provider"
	"dispatcher/throttle/limit"
)

// Summary is the outcome of a run, as the provider saw it.
type Summary struct {
	Jobs             int64    `json:"jobs"`
	Sent             int      `json:"sent"`     // calls that arrived
	Lost             int64    `json:"lost"`     // jobs that never arrived, and are no dead letters either
	Refused          int      `json:"refused"`  // calls that the provider answered with 429; their jobs were called again
	Repeated         int      `json:"repeated"` // other calls beyond the first of a job
	Cap              int64    `json:"cap"`      // at the end
	WindowS          float64  `json:"window_s"`
	MaxInWindow      int      `json:"max_in_window"`
	Utilisation      float64  `json:"utilisation"` // (sent − 1) / (last − first), over the cap
	RedisCallsPerJob float64  `json:"redis_calls_per_job"`
	Unjudged         float64  `json:"unjudged"`         // share of the windows in which the provider itself was held up
	Limits           []Judged `json:"limits,omitempty"` // after the first
	Urgent           *Waits   `json:"urgent,omitempty"` // of the jobs of the first lane
	Excess           int      `json:"excess"`           // units beyond what all windows of the run may hold together
	Unproven         bool     `json:"unproven"`         // next to no window could be judged, though there were more units than one may hold
	OK               bool     `json:"ok"`               // no window over the cap in force, no excess, not unproven, no job lost
	WindowWasChanged bool     `json:"-"`
	BrokenWindows    int      `json:"-"`
	Changes          int64    `json:"-"` // of the settings by people, meanwhile
	Chosen           int64    `json:"-"` // times that the fleet chose another lateness

	Guard     time.Duration `json:"-"` // at the end
	LateSlots int           `json:"-"` // slots that no call could use in time
}

// Judged is how a limit after the first was kept.
type Judged struct {
	Name        string  `json:"name"`
	Cap         int     `json:"cap"`
	MaxInWindow int     `json:"max_in_window"`
	Broken      int     `json:"broken_windows"`
	Unjudged    float64 `json:"unjudged"` // as of the first limit
	Excess      int     `json:"excess"`   // likewise
}

// Waits is how long jobs took from the write of their record to their call, and how many jobs of other lanes
// were called meanwhile.
type Waits struct {
	Jobs      int     `json:"jobs"`
	P50S      float64 `json:"p50_s"`
	P99S      float64 `json:"p99_s"`
	PassedP50 int     `json:"passed_p50"`
}

// monitor observes a run from outside.
type monitor struct {
	*running

	fleet   *embedded.Fleet
	start   time.Time
	show    func(Snapshot)
	history []limit.Settings // each revision that was in force
}

// mostUnjudged is the largest share of windows that a verdict may leave unjudged.
const mostUnjudged = 0.95

const snapshotEvery = 100 * time.Millisecond

// watch shows snapshots until all jobs are settled, and what happens during the run is over.
func (m *monitor) watch(ctx context.Context, during <-chan struct{}) {
	ticker := time.NewTicker(snapshotEvery)
	defer ticker.Stop()
	for {
		over := false
		select {
		case <-during:
			over = true // so no job comes any more
		default:
		}
		s := m.snapshot()
		m.show(s)
		if over && s.Jobs == s.Settled {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (m *monitor) snapshot() Snapshot {
	in := m.inForce()
	s := Snapshot{
		Elapsed: time.Since(m.start), Sent: m.parts.Provider.Count(), Rate: m.parts.Provider.Recent(in.Window),
		Cap: in.Cap, Window: in.Window, Paused: in.Paused, Nodes: m.fleet.Working(),
		Brokers: m.parts.Brokers()[0], RedisAddr: m.parts.RedisAddr(), PageAddr: m.fleet.Nodes[0].AdminAddr(),
	}
	s.Jobs, s.Settled = m.parts.Backlog()
	s.First = m.fleet.Nodes[0].LimitName()
	if m.options.Scenario == SMS {
		m.whatWaits(&s)
	}
	return s
}

// whatWaits adds what jobs wait for.
func (m *monitor) whatWaits(s *Snapshot) {
	sum, most := func(a, b float64) float64 { return a + b }, func(a, b float64) float64 { return max(a, b) }
	now := m.fleet.Gather()
	s.Lanes = now.Gauges("dispatcher_consumer_waiting_jobs", "lane", sum)
	s.Waiting = now.Gauges("dispatcher_limit_waiting_jobs", "limit", sum)
	s.Binds = now.Gauges("dispatcher_limit_binds_ratio", "limit", most)
	for _, node := range m.fleet.Nodes {
		state := node.Limit()
		s.Note = cmp.Or(s.Note, state.Note())
		if err := state.Ready(); err != nil {
			s.Note = err.Error()
		}
	}
}

// inForce is the newest settings that any node has seen. It keeps each new revision for
// the summary.
func (m *monitor) inForce() limit.Settings {
	var newest limit.Settings
	for _, node := range m.fleet.Nodes {
		if s := node.Limit().Settings; newest.Revision == 0 || s.Changed.After(newest.Changed) {
			newest = s
		}
	}
	if n := len(m.history); n == 0 || newest.Changed.After(m.history[n-1].Changed) {
		m.history = append(m.history, newest)
	}
	return newest
}

func (m *monitor) summary() Summary {
	first := m.history[0]
	last := m.history[len(m.history)-1]
	contract := provider.Contract{Window: first.Window}
	v := Summary{Cap: last.Cap, WindowS: last.Window.Seconds(), Guard: last.Guard, Changes: last.Revision - first.Revision}
	for i, s := range m.history {
		if i > 0 && s.Auto && s.By == limit.Dispatcher && s.Lateness != m.history[i-1].Lateness {
			v.Chosen++
			v.Changes--
		}
		contract.Caps = append(contract.Caps, provider.CapFrom{From: m.parts.Provider.Since(s.Changed), Cap: int(s.Cap)})
		v.WindowWasChanged = v.WindowWasChanged || s.Window != first.Window
	}
	r := m.parts.Provider.Report(contract)
	v.Jobs, _ = m.parts.Backlog()
	v.Refused = refused(m.parts.Provider.Arrivals())
	v.Sent, v.Repeated, v.MaxInWindow = r.Sent, max(0, r.Repeated-v.Refused), r.MaxInWindow
	v.Lost = max(0, v.Jobs-int64(r.Accepted)-m.parts.Dead())
	v.Utilisation, v.Unjudged, v.BrokenWindows = r.Utilisation, r.Unjudged, r.OverCount
	metrics := m.fleet.Gather()
	calls := metrics.Sum("dispatcher_limit_script_calls_total") + metrics.Sum("dispatcher_limit_script_errors_total")
	v.RedisCallsPerJob = calls / float64(max(1, v.Jobs))
	v.LateSlots = int(metrics.Sum("dispatcher_limit_late_slots_total"))
	v.Excess, v.Unproven = r.Excess, r.Unjudged > mostUnjudged && !contract.Needless(r.Verdict)
	v.OK = r.Kept && v.Excess == 0 && !v.Unproven && v.Lost == 0
	m.judgeOthers(&v)
	return v
}

// refused is how many calls the provider refused since they were too many.
func refused(arrivals []provider.Arrival) (n int) {
	for _, a := range arrivals {
		if a.Status == http.StatusTooManyRequests {
			n++
		}
	}
	return n
}

// judgeOthers judges the limits after the first, and how long the urgent jobs waited.
func (m *monitor) judgeOthers(v *Summary) {
	for _, l := range m.options.scenario().judged(m.options) {
		r := m.parts.Provider.Report(l.contract)
		v.Limits = append(v.Limits, Judged{Name: l.name, Cap: l.contract.Caps[0].Cap, MaxInWindow: r.MaxInWindow, Broken: r.OverCount, Unjudged: r.Unjudged, Excess: r.Excess})
		v.OK = v.OK && r.OverCount == 0 && r.Excess == 0
	}
	if len(m.written) > 0 {
		v.Urgent = waitsOf(m.written, m.parts.Provider.Arrivals())
	}
}

// waitsOf are the waits of urgent jobs, which have the number of their record in their ids.
func waitsOf(written []time.Duration, arrivals []provider.Arrival) *Waits {
	called := make([]time.Duration, len(written)) // first
	var others []time.Duration
	for _, a := range arrivals {
		n, urgent := urgentJob(a.Key)
		switch {
		case !urgent:
			others = append(others, a.At)
		case n < len(written) && (called[n] == 0 || a.At < called[n]):
			called[n] = a.At
		}
	}
	for n := range called {
		if called[n] == 0 { // it never was
			called[n] = arrivals[len(arrivals)-1].At
		}
	}
	slices.Sort(others)
	waits, passed := make([]time.Duration, len(written)), make([]int, len(written))
	for n, from := range written {
		waits[n] = called[n] - from
		before, _ := slices.BinarySearch(others, from)
		until, _ := slices.BinarySearch(others, called[n])
		passed[n] = until - before
	}
	slices.Sort(waits)
	slices.Sort(passed)
	half := len(waits) / 2
	return &Waits{Jobs: len(waits), P50S: waits[half].Seconds(), P99S: waits[len(waits)*99/100].Seconds(), PassedP50: passed[half]}
}

// urgentJob is the number of an urgent job's record, of a call with this key.
func urgentJob(key string) (n int, urgent bool) {
	var sender int
	_, err := fmt.Sscanf(key, "s%d-c%d-", &sender, &n)
	return n, err == nil
}
