package sender_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dispatcher/internal/boottime"
	"dispatcher/sender"
)

// slowly dials on a network, each time as long.
func slowly(n *network, wait time.Duration) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(wait):
			return n.dial(ctx, network, address)
		}
	}
}

// A caller that waits for a connection has more and more of them dialled, but never more
// than there are jobs.
func TestNoMoreIsDialledThanIsNeeded(t *testing.T) {
	t.Parallel()
	for _, jobs := range []int{0, 1, 5, 100} {
		synctest.Test(t, func(t *testing.T) {
			n := &network{serve: answering(ok)}
			s := newSender(t, sender.Options{Dial: slowly(n, 100*time.Millisecond)})
			defer s.Close()
			d := sender.Demand{Jobs: jobs, Every: 10 * time.Millisecond}
			if s.Prepare(d) {
				t.Error("a connection is at hand before the first dial")
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := s.Await(ctx, d); (err == nil) != (jobs > 0) {
				t.Errorf("%d jobs: got %v", jobs, err)
			}
			time.Sleep(time.Second)
			// One at once, then one for each call that could have been made: the first
			// of these would have waited for its turn in any case.
			if dials, _ := n.seen(); dials > min(jobs, 11) || jobs == 100 && dials < 9 {
				t.Errorf("%d jobs at 100 a second: got %d dials of 100 ms, want at most %d", jobs, dials, min(jobs, 11))
			}
		})
	}
}

// Jobs that found no connection have one each by the next time. Those that are being
// dialled already count.
func TestJobsThatFoundNoConnectionGetOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, dials := &network{serve: answering(ok)}, atomic.Int64{}
		dial := slowly(n, 100*time.Millisecond)
		s := newSender(t, sender.Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			dials.Add(1)
			return dial(ctx, network, address)
		}})
		defer s.Close()
		for _, step := range []struct {
			wait         time.Duration
			jobs, lacked int
			dials        int // that have begun by then
		}{
			{0, 200, 60, 60},
			{50 * time.Millisecond, 200, 60, 60},
			{0, 200, 70, 70},
			{0, 75, 100, 75}, // never more than there are jobs
			{time.Second, 200, 10, 75},
		} {
			time.Sleep(step.wait)
			s.Prepare(sender.Demand{Jobs: step.jobs, Every: time.Millisecond, Lacked: step.lacked})
			synctest.Wait()
			if got := int(dials.Load()); got != step.dials {
				t.Errorf("after %d jobs of %d without a connection: got %d dials, want %d", step.lacked, step.jobs, got, step.dials)
			}
		}
	})
}

// A connection that is taken belongs to one call: the next one gets another, and
// one that is released, or that its call had no use for, goes to the next.
func TestAConnectionIsTakenOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{serve: answering(ok)}
		s := newSender(t, sender.Options{Dial: n.dial})
		defer s.Close()
		d := sender.Demand{Jobs: 1, Every: time.Millisecond}
		if err := s.Await(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		first, second := s.Take(), s.Take()
		if first.IsZero() || !second.IsZero() {
			t.Fatalf("got connections %v and %v, want one", !first.IsZero(), !second.IsZero())
		}
		permits := 0
		s.Send(t.Context(), aJob("a", "x"), always(&permits)) // dials: the other one is taken
		if res := s.SendOn(t.Context(), &first, aJob("b", "x"), always(&permits)); res.Kind != sender.Accepted || !first.IsZero() {
			t.Errorf("got %+v, want accepted, and the connection gone", res)
		}
		third := s.Take()
		third.Release()
		third.Release()
		refused := func(context.Context) (boottime.Deadline, error) { return boottime.Deadline{}, io.EOF }
		third = s.Take()
		s.SendOn(t.Context(), &third, aJob("c", "x"), refused)
		s.Send(t.Context(), aJob("d", "x"), always(&permits))
		if dials, _ := n.seen(); dials != 2 || permits != 3 {
			t.Errorf("got %d dials and %d permits, want 2 and 3", dials, permits)
		}
	})
}

// A dial that fails is reported to one waiting caller. Its call is Unavailable and has
// asked for no permit. Later on the call dials itself.
func TestAFailedDialIsReportedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{serve: answering(ok)}
		var down atomic.Bool
		down.Store(true)
		refused := errors.New("connection refused")
		s := newSender(t, sender.Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if down.Load() {
				return nil, refused
			}
			return n.dial(ctx, network, address)
		}})
		defer s.Close()
		d := sender.Demand{Jobs: 1, Every: time.Millisecond}
		err := s.Await(t.Context(), d)
		if !errors.Is(err, refused) {
			t.Fatalf("got %v, want why the dial failed", err)
		}
		permits := 0
		now, later := sender.Unreached(err), sender.Unreached(err)
		if res := s.SendOn(t.Context(), &now, aJob("a", "x"), always(&permits)); res.Kind != sender.Unavailable || !errors.Is(res.Err, refused) || permits != 0 {
			t.Errorf("got %+v with %d permits, want unavailable with none", res, permits)
		}
		down.Store(false)
		if err := s.Await(t.Context(), d); err != nil {
			t.Errorf("got %v, want a connection", err)
		}
		time.Sleep(time.Second)
		if res := s.SendOn(t.Context(), &later, aJob("b", "x"), always(&permits)); res.Kind != sender.Accepted {
			t.Errorf("got %+v, want the call made: the error is of long ago", res)
		}
	})
}

// Close ends the dials ahead and the waits for them.
func TestCloseEndsTheDialsAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{serve: answering(ok)}
		s := newSender(t, sender.Options{Config: sender.Config{DialTimeout: time.Hour}, Dial: slowly(n, time.Hour)})
		ended := make(chan error, 1)
		go func() { ended <- s.Await(t.Context(), sender.Demand{Jobs: 10, Every: time.Second}) }()
		time.Sleep(time.Minute)
		begin := time.Now()
		s.Close()
		if err := <-ended; !errors.Is(err, sender.ErrClosed) && !errors.Is(err, context.Canceled) || time.Since(begin) != 0 {
			t.Errorf("got %v after %v, want the end at once", err, time.Since(begin))
		}
		if c := s.Take(); !c.IsZero() || s.Prepare(sender.Demand{Jobs: 1}) {
			t.Error("a closed sender has a connection at hand")
		}
	})
}

// A connection ends at its age: between two calls, never under one.
func TestConnectionsEndAtTheirAge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		age   time.Duration
		dials int // in 99 s, with a call a second
	}{
		"without a bound": {0, 1},
		"ten seconds":     {10 * time.Second, 11}, // each lives for 7.5 to 10 s
		"below a call":    {time.Second, 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := &network{serve: answering(ok)}
				s := newSender(t, sender.Options{Config: sender.Config{MaxConnAge: c.age}, Dial: n.dial})
				defer s.Close()
				permits := 0
				for range 100 {
					if res := s.Send(t.Context(), aJob("a", "x"), always(&permits)); res.Kind != sender.Accepted {
						t.Errorf("got %+v, want accepted: an old connection is not cut under a call", res)
					}
					time.Sleep(time.Second)
				}
				most := c.dials + c.dials/4
				if c.dials == 1 || c.dials == 100 {
					most = c.dials
				}
				if dials, _ := n.seen(); dials < c.dials || dials > most || permits != 100 {
					t.Errorf("got %d connections and %d permits, want %d to %d, and 100", dials, permits, c.dials, most)
				}
			})
		})
	}
	if _, err := sender.New(sender.Options{Config: sender.Config{URL: "http://provider.test/", MaxConnAge: -time.Second}}); err == nil || !strings.Contains(err.Error(), "max_conn_age: -1s") {
		t.Errorf("got %v, want the option and its value named", err)
	}
}

// An answer is read no further than the bound, also where the message's id is
// looked for in it.
func TestAnAnswerIsReadUpToItsBound(t *testing.T) {
	t.Parallel()
	const bound, sent = 1000, 1 << 20
	for _, id := range []string{"", "header:X-Id", "json:id"} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var wrote atomic.Int64
				n := &network{}
				n.serve = answering("HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n" + `{"id":"m-1","rest":"` + strings.Repeat("x", sent))
				dial := func(ctx context.Context, network, address string) (net.Conn, error) {
					c, err := n.dial(ctx, network, address)
					return counted{c, &wrote}, err
				}
				s := newSender(t, sender.Options{Config: sender.Config{MessageID: id, MaxResponseBytes: bound}, Dial: dial})
				defer s.Close()
				res := s.Send(t.Context(), aJob("a", "x"), always(new(int)))
				if res.Kind != sender.Accepted || res.MessageID != "" {
					t.Errorf("got %+v, want accepted, and no id out of an answer that was cut", res)
				}
				if read := wrote.Load(); read < bound || read > bound+8<<10 {
					t.Errorf("got %d bytes read, want %d and what the buffers hold", read, bound)
				}
			})
		})
	}
}

// counted counts the bytes read.
type counted struct {
	net.Conn
	read *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}
