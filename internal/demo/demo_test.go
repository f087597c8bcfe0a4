package demo_test

import (
	"strings"
	"testing"
	"time"

	"dispatcher/internal/demo"
)

func TestARunEndsWithAllJobsSent(t *testing.T) {
	t.Parallel()
	shown := 0
	v, err := demo.Run(t.Context(), demo.Options{Nodes: 2, Cap: 500, Window: time.Second, Jobs: 400}, func(s demo.Snapshot) {
		shown++
		if s.Jobs != 400 || s.Settled > s.Jobs || s.Cap != 500 {
			t.Errorf("got a snapshot of %+v", s)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if v.Jobs != 400 || v.Sent != 400+v.Repeated || v.Refused != 0 || v.Lost != 0 || v.BrokenWindows != 0 || !v.OK {
		t.Errorf("got %+v, want 400 jobs sent, none lost, no window over the cap", v)
	}
	if v.Cap != 500 || v.WindowS != 1 || v.RedisCallsPerJob <= 0 {
		t.Errorf("got %+v, want a cap of 500 a second and calls to Redis", v)
	}
	if shown == 0 {
		t.Error("nothing was shown")
	}
}

func TestAnOptionOutOfItsRangeIsNamed(t *testing.T) {
	t.Parallel()
	good := demo.Options{Nodes: 3, Cap: 300, Window: time.Second, Jobs: 3000}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string]func(*demo.Options){
		"nodes: 0":  func(o *demo.Options) { o.Nodes = 0 },
		"nodes: 51": func(o *demo.Options) { o.Nodes = 51 },
		"jobs: 0":   func(o *demo.Options) { o.Jobs = 0 },
		"cap: 0":    func(o *demo.Options) { o.Cap = 0 },
		"window":    func(o *demo.Options) { o.Window = 50 * time.Millisecond },
		"scenario: \"mail\": must be plain or sms": func(o *demo.Options) { o.Scenario = "mail" },
		"cap: 39: must be at least 40":             func(o *demo.Options) { o.Scenario, o.Cap = demo.SMS, 39 },
	} {
		o := good
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("got %v, want an error that names %s", err, field)
		}
	}
}

// mostPassed is how many other jobs may be called while an urgent one waits, at half of these: those that have slots already, and
// the least share of their lane. On an idle machine it is 4; with the lanes in the other order, 133. How long
// they wait says nothing of the order: that is many seconds where the machine is busy.
const mostPassed = 20

// The scenario sms keeps all its limits, loses nothing and has its urgent jobs called before the others.
func TestAnAccountWithSeveralLimits(t *testing.T) {
	t.Parallel()
	lanes, waited, slowed := false, false, false
	o := demo.Options{
		Nodes: 3, Cap: 120, Window: time.Second, Jobs: 480, Scenario: demo.SMS, // a rate that a race build keeps on a busy machine
		Settings: []string{"limits.0.guard=60ms", "limits.0.lateness=50ms"}, // the embedded Redis is slow under the race detector
	}
	v, err := demo.Run(t.Context(), o, func(s demo.Snapshot) {
		lanes = lanes || s.Lanes["bulk"] > 0
		waited = waited || s.Waiting["sender"]+s.Waiting["recipient"] > 0
		slowed = slowed || strings.Contains(s.Note, "the provider refused")
	})
	if err != nil {
		t.Fatal(err)
	}
	if v.Jobs <= int64(o.Jobs) || v.Lost != 0 || v.BrokenWindows != 0 || !v.OK && !v.Unproven || len(v.Limits) != 2 {
		t.Errorf("got %+v, want all jobs sent, and no window of any limit over", v)
	}
	if v.Refused == 0 || v.Sent != int(v.Jobs)+v.Refused || v.Repeated != 0 {
		t.Errorf("got %d calls for %d jobs, %d refused and %d repeated, want some refused, and no other job called twice", v.Sent, v.Jobs, v.Refused, v.Repeated)
	}
	for _, l := range v.Limits {
		if l.Unjudged < 1 && l.MaxInWindow < 1 || l.MaxInWindow > l.Cap {
			t.Errorf("got %+v, want at most the cap, and some calls where the provider could judge", l)
		}
	}
	if v.Urgent == nil || v.Urgent.Jobs < 200 || v.Urgent.PassedP50 > mostPassed {
		t.Errorf("got waits of urgent jobs of %+v, want that half of them let %d others pass at most", v.Urgent, mostPassed)
	}
	if !lanes || !waited || !slowed {
		t.Errorf("the view showed waiting lanes: %v, jobs that wait for a limit: %v, a provider that refuses: %v; want all", lanes, waited, slowed)
	}
}
