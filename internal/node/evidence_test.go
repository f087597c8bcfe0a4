package node

import (
	"testing"
	"time"
)

// Who is to blame for a failure, by what happened before.
func TestWhoIsToBlame(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	served := func(s int) func(*evidence) { return func(e *evidence) { e.answered(at(s)) } }
	fresh := func(now, since int) func(*evidence) {
		return func(e *evidence) { e.failed(at(now), at(since), false) }
	}
	for name, c := range map[string]struct {
		before     []func(*evidence)
		now, since int
		again      bool
		want       bool
	}{
		"nothing is known":                               {nil, 10, 5, false, false},
		"nothing is known of one that failed before":     {nil, 10, 5, true, false},
		"another was served since it began":              {[]func(*evidence){served(6)}, 10, 5, false, true},
		"another was served before it began":             {[]func(*evidence){served(4)}, 10, 5, false, false},
		"nothing speaks against the provider":            {[]func(*evidence){served(4)}, 10, 5, true, true},
		"another failed for the first time":              {[]func(*evidence){served(4), fresh(6, 3)}, 10, 8, true, false},
		"and a later call was answered":                  {[]func(*evidence){fresh(6, 3), served(7)}, 10, 8, true, true},
		"a call written before was answered":             {[]func(*evidence){fresh(6, 5), served(5)}, 10, 8, true, false},
		"in flight as the outage began, and alone since": {[]func(*evidence){served(4), fresh(6, 3)}, 60, 6, true, false},
		"an older answer came late":                      {[]func(*evidence){served(7), served(3)}, 10, 6, false, true},
	} {
		var e evidence
		for _, do := range c.before {
			do(&e)
		}
		if got := e.failed(at(c.now), at(c.since), c.again); got != c.want {
			t.Errorf("%s: got blamed %v, want %v", name, got, c.want)
		}
	}
}

// Doubt begins with a job's first failure, not with that of one which is to blame
// and failed before. A call that is answered ends it, if it was written later.
func TestDoubt(t *testing.T) {
	t.Parallel()
	start := time.Now()
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	var e evidence
	expect := func(what string, want bool) {
		t.Helper()
		if got := e.doubts(); got != want {
			t.Errorf("%s: got doubt %v, want %v", what, got, want)
		}
	}
	expect("at the beginning", false)
	e.answered(at(1))
	e.failed(at(2), at(0), true)
	expect("a job that is to blame failed again", false)
	e.failed(at(3), at(0), false)
	expect("a job failed for the first time", true)
	e.answered(at(2))
	expect("a call that was written before was answered", true)
	e.answered(at(4))
	expect("a later call was answered", false)
}

// A failure that could not be judged at once counts if the provider answered calls
// shortly before and after it, once for all failures between two answers.
func TestAFailureIsJudgedByTheNextAnswer(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	for name, c := range map[string]struct {
		before, since int
		answers       []int
		judged, want  bool
	}{
		"nothing was answered since":          {5, 6, nil, false, false},
		"a call written before was answered":  {5, 6, []int{6}, false, false},
		"answered shortly before and after":   {5, 6, []int{15}, true, true},
		"an outage lay between":               {5, 6, []int{16}, true, false},
		"answered twice after":                {5, 6, []int{8, 9}, true, true},
		"an outage, and answers after it":     {5, 6, []int{20, 21}, true, false},
		"an older call was answered meantime": {5, 6, []int{4, 30}, true, false},
	} {
		var e evidence
		e.answered(at(c.before))
		told := 0
		s := e.suspect(at(c.since), at(c.since), func() { told++ })
		for _, a := range c.answers {
			e.answered(at(a))
		}
		judged, blamed := e.decided(s)
		if judged != c.judged || blamed != c.want || told == 1 != c.want || len(e.suspects) == 0 != c.judged {
			t.Errorf("%s: got judged %v, blamed %v, told %d times, %d left", name, judged, blamed, told, len(e.suspects))
		}
	}
}

// Suspicions are bounded: there are none where no answer came shortly before.
func TestSuspicionsAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var e evidence
	if e.suspect(now, now, func() {}) != nil {
		t.Error("one began on a node that had no answer yet")
	}
	e.answered(now)
	if e.suspect(now.Add(shortly+1), now, func() {}) != nil {
		t.Error("one began in a long outage")
	}
	for range mostSuspicions {
		e.suspect(now.Add(shortly), now, func() {})
	}
	if e.suspect(now, now, func() {}) != nil || len(e.suspects) != mostSuspicions {
		t.Errorf("got %d suspicions, want %d", len(e.suspects), mostSuspicions)
	}
}
