package sender_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dispatcher/internal/boottime"
	"dispatcher/sender"
)

func TestIdleConnectionsGrowOld(t *testing.T) {
	t.Parallel()
	keepAlive := strings.Replace(ok, "\r\n", "\r\nKeep-Alive: max=100, timeout=5\r\n", 1)
	for name, c := range map[string]struct {
		answer string
		pause  time.Duration
		dials  int
	}{
		"young":                    {ok, 9 * time.Second, 1},
		"old":                      {ok, 10 * time.Second, 2},
		"within the peer's hint":   {keepAlive, 3 * time.Second, 1},
		"older than the peer says": {keepAlive, 4 * time.Second, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := &network{serve: answering(c.answer)}
				s := newSender(t, sender.Options{Config: sender.Config{IdleTimeout: 10 * time.Second}, Dial: n.dial})
				defer s.Close()
				permits := 0
				s.Send(t.Context(), aJob("a", "x"), always(&permits))
				time.Sleep(c.pause)
				s.Send(t.Context(), aJob("b", "x"), always(&permits))
				if dials, _ := n.seen(); dials != c.dials {
					t.Errorf("got %d connections, want %d", dials, c.dials)
				}
			})
		})
	}
}

// A node whose work has ended keeps no connection, although it takes none and gives none back.
func TestIdleConnectionsAreClosedWithoutWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{serve: answering(ok)}
		metrics := prometheus.NewRegistry()
		s := newSender(t, sender.Options{Config: sender.Config{IdleTimeout: 10 * time.Second}, Dial: n.dial, Registerer: metrics})
		defer s.Close()
		for range 2 { // the second one dials again
			var calls sync.WaitGroup
			for range 5 {
				calls.Go(func() { s.Send(t.Context(), aJob("a", "x"), always(new(int))) })
			}
			calls.Wait()
			for _, c := range []struct {
				wait time.Duration
				open bool
			}{{9 * time.Second, true}, {time.Second, false}} {
				time.Sleep(c.wait)
				synctest.Wait()
				if open := gather(t, metrics)["dispatcher_sender_connections idle"]; (open > 0) != c.open {
					t.Errorf("got %v connections open %v later, want some: %t", open, c.wait, c.open)
				}
			}
		}
	})
}

// A slot may come late: a pause, Redis away. The connection grows old meanwhile.
func TestIdleConnectionsGrowOldUnderThePermit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		idle, wait     time.Duration
		dials, permits int
	}{
		"young":                   {5 * time.Second, 4 * time.Second, 1, 1},
		"old":                     {5 * time.Second, 5 * time.Second, 2, 2},
		"old in no time":          {10*time.Second - time.Millisecond, 5 * time.Millisecond, 2, 1},
		"a pause of minutes":      {0, 10 * time.Minute, 2, 2},
		"dialled for it":          {time.Minute, 9 * time.Second, 2, 1},
		"dialled for it, and old": {time.Minute, 10 * time.Second, 3, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := &network{serve: answering(ok)}
				s := newSender(t, sender.Options{Config: sender.Config{IdleTimeout: 10 * time.Second}, Dial: n.dial})
				defer s.Close()
				permits := 0
				s.Send(t.Context(), aJob("before", "x"), always(new(int)))
				time.Sleep(c.idle)
				res := s.Send(t.Context(), aJob("a", "x"), func(context.Context) (boottime.Deadline, error) {
					permits++
					time.Sleep(c.wait)
					return boottime.By(time.Now().Add(time.Millisecond)), nil
				})
				if dials, _ := n.seen(); res.Kind != sender.Accepted || dials != c.dials || permits != c.permits {
					t.Errorf("got %+v, %d connections, %d permits; want accepted, %d, %d", res, dials, permits, c.dials, c.permits)
				}
			})
		})
	}
}

// What others leave idle meanwhile may grow old under the next permit as well.
func TestOldConnectionCostsOnePermit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{serve: answering(ok)}
		s := newSender(t, sender.Options{Config: sender.Config{IdleTimeout: 10 * time.Second}, Dial: n.dial})
		defer s.Close()
		asked, others := 0, 0
		s.Send(t.Context(), aJob("a", "x"), always(&others))
		res := s.Send(t.Context(), aJob("b", "x"), func(context.Context) (boottime.Deadline, error) {
			if asked++; asked > 2 {
				return boottime.Deadline{}, errors.New("asked too often")
			}
			time.Sleep(time.Minute)
			s.Send(t.Context(), aJob("c", "x"), always(&others))
			return boottime.By(time.Now().Add(time.Millisecond)), nil
		})
		if res.Kind != sender.Accepted || asked != 2 {
			t.Errorf("got %+v after %d permits, want accepted after 2", res, asked)
		}
	})
}

// A provider counts from the last call, whatever we did with the connection since.
func TestRefusedPermitDoesNotMakeAConnectionYoung(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{serve: answering(ok)}
		s := newSender(t, sender.Options{Config: sender.Config{IdleTimeout: 10 * time.Second}, Dial: n.dial})
		defer s.Close()
		permits := 0
		refused := func(context.Context) (boottime.Deadline, error) {
			time.Sleep(6 * time.Second)
			return boottime.Deadline{}, errors.New("the node stops")
		}
		s.Send(t.Context(), aJob("a", "x"), refused) // dials; never used
		time.Sleep(3 * time.Second)
		s.Send(t.Context(), aJob("b", "x"), always(&permits)) // 9 s after the dial
		if dials, _ := n.seen(); dials != 1 {
			t.Errorf("got %d connections, want the first one used", dials)
		}
		s.Send(t.Context(), aJob("c", "x"), refused)
		time.Sleep(4 * time.Second)
		s.Send(t.Context(), aJob("d", "x"), always(&permits)) // 10 s after the last call
		if dials, _ := n.seen(); dials != 2 || permits != 2 {
			t.Errorf("got %d connections and %d permits, want 2 and 2", dials, permits)
		}
	})
}
