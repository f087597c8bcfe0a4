package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/singleflight"

	"dispatcher/internal/problem"
)

const (
	maxStreams  = 64
	eventEvery  = time.Second
	longest     = 15 * time.Minute // of a stream; the page opens it again, by the token that is good then
	writeWithin = 10 * time.Second // one event
)

// streams sends the fleet's state to each page that is open. All of them share one reading a second and wait for it together, so the
// node wakes once a second for all pages.
type streams struct {
	read func(context.Context) (any, error)

	open    chan struct{} // holds a token for each stream
	reading singleflight.Group
	last    event // of the readings, of which there is one at a time
}

// event is what was read last.
type event struct {
	at   time.Time
	name string // overview, or problem
	data []byte
}

func newStreams(read func(context.Context) (any, error)) *streams {
	return &streams{read: read, open: make(chan struct{}, maxStreams)}
}

// ServeHTTP sends an event a second until the client goes.
func (s *streams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case s.open <- struct{}{}:
		defer func() { <-s.open }()
	default:
		problem.Write(w, problem.Error{Status: http.StatusServiceUnavailable, Detail: fmt.Sprintf("%d pages are open on this node; close one, or use another node", maxStreams)})
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Accel-Buffering", "no") // a proxy would hold events back
	if r.Method == http.MethodHead {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), longest)
	defer cancel()
	out := http.NewResponseController(w)
	next := time.NewTimer(eventEvery)
	defer next.Stop()
	for {
		e, err := s.newest(ctx)
		if err != nil || out.SetWriteDeadline(time.Now().Add(writeWithin)) != nil {
			return
		}
		if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e.name, e.data); err != nil || out.Flush() != nil {
			return
		}
		next.Reset(time.Until(e.at.Add(eventEvery)))
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
	}
}

// newest is what was read last, or is read now where that is a second old. One reading serves all who wait. It returns ctx's error.
func (s *streams) newest(ctx context.Context) (event, error) {
	done := s.reading.DoChan("", func() (any, error) {
		if time.Since(s.last.at) >= eventEvery { // else a reading has just ended that others waited for
			s.last = s.readNow(context.WithoutCancel(ctx))
		}
		return s.last, nil
	})
	select {
	case <-ctx.Done():
		return event{}, ctx.Err()
	case r := <-done:
		e, _ := r.Val.(event)
		return e, nil
	}
}

func (s *streams) readNow(ctx context.Context) event {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	name := "overview"
	body, err := s.read(ctx)
	if err != nil {
		name, body = "problem", problemOf(err).Titled()
	}
	data, err := json.Marshal(body)
	if err != nil {
		name, data = "problem", []byte("{}")
	}
	return event{at: time.Now(), name: name, data: data}
}

// liveSeconds are the seconds of an event: enough for a page that missed some events.
const liveSeconds = 10

// live is the data of an event.
func (a *api) live(ctx context.Context) (any, error) { return a.fleet.Live(ctx, liveSeconds) }
