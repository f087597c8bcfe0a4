package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dispatcher/internal/api"
)

// stream notes when events come.
type stream struct {
	*httptest.ResponseRecorder

	events []time.Duration // since start
	start  time.Time
}

func (s *stream) SetWriteDeadline(time.Time) error { return nil }

func (s *stream) Flush() { s.events = append(s.events, time.Since(s.start)) }

// A page gets what was read last as soon as it opens, and then each event when all others get it: the node wakes once a second.
func TestStreamsWakeTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const second = time.Second
		ctx, cancel := context.WithCancel(t.Context())
		start, readings := time.Now(), []time.Duration(nil)
		pages := api.Streams(func(context.Context) (any, error) {
			readings = append(readings, time.Since(start))
			return struct{}{}, nil
		})
		opened := []time.Duration{0, 300 * time.Millisecond, 950 * time.Millisecond}
		all := make([]*stream, len(opened))
		var open sync.WaitGroup
		for i, at := range opened {
			all[i] = &stream{ResponseRecorder: httptest.NewRecorder(), start: start}
			open.Go(func() {
				time.Sleep(at)
				pages.ServeHTTP(all[i], httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
			})
		}
		time.Sleep(3*second + second/2)
		cancel()
		open.Wait()
		for i, at := range opened {
			if want := []time.Duration{at, second, 2 * second, 3 * second}; !slices.Equal(all[i].events, want) {
				t.Errorf("page %d: got events at %v, want them at %v", i, all[i].events, want)
			}
		}
		if want := []time.Duration{0, second, 2 * second, 3 * second}; !slices.Equal(readings, want) {
			t.Errorf("got readings at %v, want them at %v", readings, want)
		}
	})
}
