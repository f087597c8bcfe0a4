package dedup

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// server answers as dedup.lua would, as far as claims and dones go, and can be
// away.
type server struct {
	mu      sync.Mutex
	away    bool
	slow    time.Duration
	deaf    bool // it does what it is asked, and its replies are lost
	jobs    map[string]request
	batches [][]request
	times   []time.Time
}

// nobody is a Redis that is never called.
type nobody struct{ redis.Scripter }

var errAway = errors.New("connection refused")

func (s *server) run(ctx context.Context, batch []request) ([]result, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times = append(s.times, time.Now())
	if s.slow > 0 {
		timer := time.NewTimer(s.slow)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
	if s.away {
		return nil, false, errAway
	}
	s.batches = append(s.batches, slices.Clone(batch))
	answers := make([]result, len(batch))
	for i, a := range batch {
		answers[i] = s.one(a)
	}
	if s.deaf {
		return nil, false, errAway
	}
	return answers, false, nil
}

func (s *server) one(a request) result {
	was, ok := s.jobs[a.job.field]
	switch {
	case a.verb == verbRelease:
		if was.verb == verbClaim && was.owner == a.owner {
			delete(s.jobs, a.job.field)
		}
	case a.verb == verbDone:
		s.jobs[a.job.field] = a
	case ok && was.verb == verbDone:
		return result{codeSent, was.number}
	case ok && was.owner != a.owner:
		return result{codeBusy, 1_000_000}
	case a.verb == verbClaim:
		s.jobs[a.job.field] = a
		return result{code: codeGranted}
	}
	return result{}
}

func (s *server) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// verbs are the verbs of each call.
func (s *server) verbs() (calls []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, batch := range s.batches {
		var words []string
		for _, a := range batch {
			words = append(words, string(a.verb))
		}
		calls = append(calls, strings.Join(words, " "))
	}
	return calls
}

// bubble is a test with a dedup store and its server.
type bubble struct {
	*testing.T
	l *Store
	s *server
}

// inBubble runs a dedup store on a server in a bubble.
func inBubble(t *testing.T, test func(bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		onServer(t, test)
	})
}

func onServer(t *testing.T, test func(bubble)) {
	t.Helper()
	s := &server{jobs: map[string]request{}}
	l, err := New(Options{Redis: nobody{}, Namespace: "ns", CallTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	l.run = s.run
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := l.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	test(bubble{t, l, s})
	stop()
	running.Wait()
}
