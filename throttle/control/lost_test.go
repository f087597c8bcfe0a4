package control_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"dispatcher/internal/redisclient"
	"dispatcher/internal/redisclient/redisfault"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

func isScript(cmd redis.Cmder) bool { return strings.HasPrefix(cmd.Name(), "eval") }

// A Redis that stalls for longer than its client waits makes the change all the same. The operator gets it as made, and it is made
// once.
func TestLawAChangeWhoseAnswerIsLostIsMadeOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		runs    bool
		answers int64 // that are lost
		unclear bool
	}{
		"made, one answer lost":        {runs: true, answers: 1},
		"made, no answer comes":        {runs: true, answers: 9},
		"not made, one answer lost":    {answers: 1},
		"not made, two answers lost":   {answers: 2},
		"never made, no answer comes":  {answers: 9, unclear: true},
		"made at once, no answer lost": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDeployment(t, limit.Guardrails{}, 1)
			rdb := redis.NewClient(&redis.Options{Addr: d.server.Addr(), MaxRetries: -1})
			t.Cleanup(func() { _ = rdb.Close() })
			faults := &redisfault.Answers{Of: isScript, Runs: c.runs}
			rdb.AddHook(faults)
			operator, err := control.NewControl(rdb, "default", "provider")
			if err != nil {
				t.Fatal(err)
			}
			before, err := operator.Get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			faults.Lose(c.answers)
			made, err := operator.Set(t.Context(), control.Change{Values: parameters.Values{"cap": "200"}, By: "anna"})
			if got := errors.Is(err, redisclient.ErrUnclear); got != c.unclear || err != nil && !got {
				t.Fatalf("got %v, want that it is unclear: %v", err, c.unclear)
			}
			want, changes := before.Revision+1, 1
			if c.unclear {
				want, changes = before.Revision, 0
			}
			now, err := d.Get(t.Context())
			if err != nil || now.Revision != want {
				t.Errorf("got revision %d in force, %v, want %d", now.Revision, err, want)
			}
			if err == nil && !c.unclear && made.Pack() != now.Pack() {
				t.Errorf("got %s, and %s is in force", made.Pack(), now.Pack())
			}
			if all, err := d.History(t.Context(), 10); err != nil || len(all) != changes {
				t.Errorf("got %d changes in the history, %v, want %d", len(all), err, changes)
			}
		})
	}
}

// Another operator's change that came between is not overwritten, and no error says that nothing was changed.
func TestLawALostAnswerOverwritesNoLaterChange(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, limit.Guardrails{}, 1)
	rdb := redis.NewClient(&redis.Options{Addr: d.server.Addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	operator, err := control.NewControl(rdb, "default", "provider")
	if err != nil {
		t.Fatal(err)
	}
	other := func(redis.Cmder) bool {
		if _, err := d.Set(t.Context(), control.Change{Values: parameters.Values{"cap": "100"}, By: "ben"}); err != nil {
			t.Error(err)
		}
		return true
	}
	faults := &redisfault.Answers{Of: func(cmd redis.Cmder) bool { return isScript(cmd) && other(cmd) }}
	rdb.AddHook(faults)
	faults.Lose(1)
	_, err = operator.Set(t.Context(), control.Change{Values: parameters.Values{"cap": "200"}, By: "anna"})
	if !errors.Is(err, redisclient.ErrUnclear) {
		t.Errorf("got %v, want that it is unclear", err)
	}
	if now, err := d.Get(t.Context()); err != nil || now.Cap != 100 {
		t.Errorf("got a cap of %d, %v, want the other operator's 100", now.Cap, err)
	}
}
