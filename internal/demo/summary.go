package demo

import (
	"context"
	"time"

	"dispatcher/internal/embedded"
	"dispatcher/internal/provider"
	"dispatcher/throttle/limit"
)

// Summary is the outcome of a run, as the provider saw it.
type Summary struct {
	Jobs             int64   `json:"jobs"`
	Sent             int     `json:"sent"`     // calls that arrived
	Lost             int64   `json:"lost"`     // jobs that never arrived, and are no dead letters either
	Repeated         int     `json:"repeated"` // calls beyond the first of a job
	Cap              int64   `json:"cap"`      // at the end
	WindowS          float64 `json:"window_s"`
	MaxInWindow      int     `json:"max_in_window"`
	Utilisation      float64 `json:"utilisation"` // (sent − 1) / (last − first), over the cap
	RedisCallsPerJob float64 `json:"redis_calls_per_job"`
	Unjudged         float64 `json:"unjudged"` // share of the windows in which the provider itself was held up
	OK               bool    `json:"ok"`       // no window over the cap in force, no job lost
	WindowWasChanged bool    `json:"-"`
	BrokenWindows    int     `json:"-"`
	Changes          int64   `json:"-"` // of the settings by people, meanwhile
	Chosen           int64   `json:"-"` // times that the fleet chose another lateness

	Guard     time.Duration `json:"-"` // at the end
	LateSlots int           `json:"-"` // slots that no call could use in time
}

// monitor observes a run from outside.
type monitor struct {
	options Options
	parts   *embedded.Parts
	fleet   *embedded.Fleet
	start   time.Time
	show    func(Snapshot)
	history []limit.Settings // each revision that was in force
}

const snapshotEvery = 100 * time.Millisecond

// watch shows snapshots until all jobs are settled.
func (m *monitor) watch(ctx context.Context) {
	ticker := time.NewTicker(snapshotEvery)
	defer ticker.Stop()
	for {
		s := m.snapshot()
		m.show(s)
		if s.Jobs == s.Settled {
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
		Brokers: m.parts.Brokers()[0], RedisAddr: m.parts.RedisAddr(),
	}
	s.Jobs, s.Settled = m.parts.Backlog()
	return s
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
	v.Sent, v.Repeated, v.MaxInWindow = r.Sent, r.Repeated, r.MaxInWindow
	v.Lost = max(0, v.Jobs-int64(r.Accepted)-m.parts.Dead())
	v.Utilisation, v.Unjudged, v.BrokenWindows = r.Utilisation, r.Unjudged, r.OverCount
	calls := m.fleet.Sum("dispatcher_limit_script_calls_total") + m.fleet.Sum("dispatcher_limit_script_errors_total")
	v.RedisCallsPerJob = calls / float64(max(1, v.Jobs))
	v.LateSlots = int(m.fleet.Sum("dispatcher_limit_late_slots_total"))
	v.OK = r.Kept && v.Lost == 0
	return v
}
