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
	if v.Jobs != 400 || v.Sent != 400+v.Repeated || v.Lost != 0 || v.BrokenWindows != 0 || !v.OK {
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
	} {
		o := good
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("got %v, want an error that names %s", err, field)
		}
	}
}
