package sender

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dispatcher/internal/boottime"
	"dispatcher/job"
	"dispatcher/sender/internal/conns"
)

// slow holds writes up before they are checked, as a scheduler does that does not run
// the writing goroutine for a while.
type slow struct {
	net.Conn
	by time.Duration
}

func (s slow) Write(p []byte) (int, error) {
	time.Sleep(s.by)
	return s.Conn.Write(p)
}

// newSlowed makes a sender whose connections are wrapped above the check of their
// writes.
func newSlowed(t *testing.T, o Options, wrap func(net.Conn) net.Conn) *Sender {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	pool := s.poolOptions(o.withDefaults())
	pool.Wrap = wrap
	s.pool = conns.New(pool)
	return s
}

func TestLateWriteIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const useful = 3 * time.Millisecond
		var arrivals []time.Time
		dials := 0
		o := Options{Config: Config{URL: "http://provider.test/"}, Dial: func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go func() {
				br := bufio.NewReader(server)
				if _, err := br.Peek(1); err != nil {
					return // nothing came
				}
				arrivals = append(arrivals, time.Now())
				if req, err := http.ReadRequest(br); err == nil {
					_, _ = io.Copy(io.Discard, req.Body)
					_, _ = io.WriteString(server, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				}
			}()
			return client, nil
		}}
		s := newSlowed(t, o, func(c net.Conn) net.Conn {
			dials++
			// 4 ms, 3 ms, …: the second one is just in time.
			return slow{c, time.Duration(5-dials) * time.Millisecond}
		})
		defer s.Close()

		begun, permits := time.Now(), 0
		res := s.Send(t.Context(), job.Job{ID: "a", Record: job.Record{Value: []byte("x")}}, func(context.Context) (boottime.Deadline, error) {
			permits++
			return boottime.By(time.Now().Add(useful)), nil
		})
		if res.Kind != Accepted || permits != 2 || dials != 2 {
			t.Errorf("got %+v, %d permits, %d connections; want accepted, 2, 2", res, permits, dials)
		}
		want := begun.Add(4*time.Millisecond + useful)
		if len(arrivals) != 1 || !arrivals[0].Equal(want) || !res.WroteAt.Equal(want) {
			t.Errorf("arrivals %v, written %v; want one, at %v", arrivals, res.WroteAt, want)
		}
	})
}

// An answer that comes before the call was written belongs to another call; this one
// must not be written any more.
func TestAnswerBeforeTheCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var written atomic.Int64
		o := Options{Config: Config{URL: "http://provider.test/"}, Dial: func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go func() {
				time.Sleep(time.Millisecond)
				_, _ = io.WriteString(server, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				n, _ := io.Copy(io.Discard, server)
				written.Add(n)
			}()
			return client, nil
		}}
		s := newSlowed(t, o, func(c net.Conn) net.Conn { return slow{c, time.Second} })
		defer s.Close()
		permits := 0
		res := s.Send(t.Context(), job.Job{ID: "a"}, func(context.Context) (boottime.Deadline, error) {
			permits++
			return boottime.Deadline{}, nil
		})
		time.Sleep(time.Minute)
		if res.Kind != Unavailable || permits != mostDead || written.Load() != 0 {
			t.Errorf("got %+v, %d permits, %d bytes written; want unavailable, %d, 0", res, permits, written.Load(), mostDead)
		}
	})
}
