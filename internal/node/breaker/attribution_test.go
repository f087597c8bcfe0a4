package breaker

import (
	"testing"
	"time"
)

// A failure is attributed to its job or to the provider by what happened before.
func TestAFailureIsAttributed(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	served := func(s int) func(*attributor) { return func(a *attributor) { a.Answered(at(s)) } }
	fresh := func(now, since int) func(*attributor) {
		return func(a *attributor) { a.failed(at(now), at(since), false) }
	}
	for name, c := range map[string]struct {
		before     []func(*attributor)
		now, since int
		again      bool
		want       bool
	}{
		"nothing is known":                               {nil, 10, 5, false, false},
		"nothing is known of one that failed before":     {nil, 10, 5, true, false},
		"another was served since it began":              {[]func(*attributor){served(6)}, 10, 5, false, true},
		"another was served before it began":             {[]func(*attributor){served(4)}, 10, 5, false, false},
		"no failure counts against the provider":         {[]func(*attributor){served(4)}, 10, 5, true, true},
		"another failed for the first time":              {[]func(*attributor){served(4), fresh(6, 3)}, 10, 8, true, false},
		"and a later call was answered":                  {[]func(*attributor){fresh(6, 3), served(7)}, 10, 8, true, true},
		"a call written before was answered":             {[]func(*attributor){fresh(6, 5), served(5)}, 10, 8, true, false},
		"in flight as the outage began, and alone since": {[]func(*attributor){served(4), fresh(6, 3)}, 60, 6, true, false},
		"an older answer came late":                      {[]func(*attributor){served(7), served(3)}, 10, 6, false, true},
	} {
		var a attributor
		for _, do := range c.before {
			do(&a)
		}
		if got := a.failed(at(c.now), at(c.since), c.again); got != c.want {
			t.Errorf("%s: got attributed to the job %v, want %v", name, got, c.want)
		}
	}
}

// A job's first failure counts against the provider. A later one counts only if it is
// not attributed to its job. An answer to a call that was written later clears the provider.
func TestFailuresThatCountAgainstTheProvider(t *testing.T) {
	t.Parallel()
	start := time.Now()
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	var a attributor
	expect := func(what string, want bool) {
		t.Helper()
		if got := a.failing(); got != want {
			t.Errorf("%s: got failing %v, want %v", what, got, want)
		}
	}
	expect("at the beginning", false)
	a.Answered(at(1))
	a.failed(at(2), at(0), true)
	expect("a failure of a job that failed before was attributed to it", false)
	a.failed(at(3), at(0), false)
	expect("a job failed for the first time", true)
	a.Answered(at(2))
	expect("a call that was written before was answered", true)
	a.Answered(at(4))
	expect("a later call was answered", false)
}

// A failure that is pending is attributed to its job if the provider answered calls
// shortly before and after it, once for all failures between two answers.
func TestAPendingFailureIsAttributedByTheNextAnswer(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	for name, c := range map[string]struct {
		before, since int
		answers       []int
		decided, want bool
	}{
		"nothing was answered since":          {5, 6, nil, false, false},
		"a call written before was answered":  {5, 6, []int{6}, false, false},
		"answered shortly before and after":   {5, 6, []int{15}, true, true},
		"an outage lay between":               {5, 6, []int{16}, true, false},
		"answered twice after":                {5, 6, []int{8, 9}, true, true},
		"an outage, and answers after it":     {5, 6, []int{20, 21}, true, false},
		"an older call was answered meantime": {5, 6, []int{4, 30}, true, false},
	} {
		var a attributor
		a.Answered(at(c.before))
		counted := 0
		p := a.awaitAnswer(at(c.since), at(c.since), func() { counted++ })
		for _, wrote := range c.answers {
			a.Answered(at(wrote))
		}
		decided, toJob := a.decided(p)
		if decided != c.decided || toJob != c.want || counted == 1 != c.want || len(a.pending) == 0 != c.decided {
			t.Errorf("%s: got decided %v, attributed to the job %v, counted %d times, %d pending; want decided %v, to the job %v", name, decided, toJob, counted, len(a.pending), c.decided, c.want)
		}
	}
}

// Few failures are pending at once: none where no answer came shortly before.
func TestPendingFailuresAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var a attributor
	if a.awaitAnswer(now, now, func() {}) != nil {
		t.Error("a failure is pending on a node that had no answer yet")
	}
	a.Answered(now)
	if a.awaitAnswer(now.Add(maxGap+1), now, func() {}) != nil {
		t.Error("a failure is pending in a long outage")
	}
	for range maxPending {
		a.awaitAnswer(now.Add(maxGap), now, func() {})
	}
	if a.awaitAnswer(now, now, func() {}) != nil || len(a.pending) != maxPending {
		t.Errorf("got %d pending failures, want %d", len(a.pending), maxPending)
	}
}
