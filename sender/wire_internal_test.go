package sender

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dispatcher/job"
)

// slow stands above the wire and holds the first writes up, as a scheduler
// would that does not run the writing goroutine for a while.
type slow struct {
	net.Conn
	by time.Duration
}

func (s slow) Write(p []byte) (int, error) {
	time.Sleep(s.by)
	return s.Conn.Write(p)
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
		h, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		d := newDialer(o.withDefaults(), h.template)
		below := d.transport.DialContext
		d.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := below(ctx, network, address)
			dials++
			// 4 ms, 3 ms, …: the second one is just in time.
			return slow{c, time.Duration(5-dials) * time.Millisecond}, err
		}
		h.conns.dial = d.dial

		begun, permits := time.Now(), 0
		res := h.Send(t.Context(), job.Job{ID: "a", Record: job.Record{Value: []byte("x")}}, func(context.Context) (time.Time, error) {
			permits++
			return time.Now().Add(useful), nil
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

// An answer that comes while the call is held up above the wire is some other
// call's; this one must not be written behind its back.
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
		h, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		d := newDialer(o.withDefaults(), h.template)
		below := d.transport.DialContext
		d.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := below(ctx, network, address)
			return slow{c, time.Second}, err
		}
		h.conns.dial = d.dial
		permits := 0
		res := h.Send(t.Context(), job.Job{ID: "a"}, func(context.Context) (time.Time, error) {
			permits++
			return time.Time{}, nil
		})
		time.Sleep(time.Minute)
		if res.Kind != Unavailable || permits != maxDead || written.Load() != 0 {
			t.Errorf("got %+v, %d permits, %d bytes written; want unavailable, %d, 0", res, permits, written.Load(), maxDead)
		}
	})
}

// A host that was suspended between the permit and the write does not write: the
// monotonic clock stood still, and the use-by looks fresh.
func TestWireWritesNothingAfterASuspension(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		slept time.Duration
		want  error
	}{{0, nil}, {500 * time.Microsecond, nil}, {2 * time.Millisecond, errLate}, {time.Hour, errLate}} {
		client, server := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, server) }()
		w := newWire(client, false)
		slept := 42 * time.Second
		w.suspended = func() time.Duration { return slept }
		w.arm(time.Now().Add(time.Hour), time.Hour)
		slept += row.slept
		if _, err := w.Write(make([]byte, 100)); !errors.Is(err, row.want) {
			t.Errorf("after a suspension of %v: got %v, want %v", row.slept, err, row.want)
		}
		w.end()
		_ = client.Close()
	}
}

func TestWireWritesNothingAfterARefusal(t *testing.T) {
	t.Parallel()
	client, server := net.Pipe()
	w := newWire(client, true)
	w.arm(time.Now().Add(-time.Nanosecond), time.Second)
	for range 2 { // the request, then TLS's goodbye
		if _, err := w.Write(make([]byte, 100)); !errors.Is(err, errLate) {
			t.Errorf("got %v, want %v", err, errLate)
		}
	}
	if n, err := server.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("the peer got %d bytes, %v; want none and the end", n, err)
	}
	if call, alive := w.end(); !call.late || alive || !call.wroteAt.IsZero() {
		t.Errorf("got %+v, alive %v; want late, not alive, never written", call, alive)
	}
}

func TestWireChecksOnlyTheFirstWriteOfACall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, server) }()
		w := newWire(client, false)
		begun := time.Now()
		w.arm(begun.Add(time.Second), time.Minute)
		for range 3 {
			if _, err := w.Write([]byte("x")); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
		}
		call, alive := w.end()
		if !call.wroteAt.Equal(begun) || !alive {
			t.Errorf("got written %v, alive %v; want %v, alive", call.wroteAt, alive, begun)
		}
		time.Sleep(time.Hour) // the timer is off: the connection outlives it
		if _, err := w.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		_ = client.Close()
		_ = server.Close()
	})
}

// What ended before it was written is not written later.
func TestWireWritesNothingOnceTheCallHasEnded(t *testing.T) {
	t.Parallel()
	client, server := net.Pipe()
	t.Cleanup(func() { _ = server.Close() })
	w := newWire(client, false)
	w.arm(time.Time{}, time.Hour)
	w.end()
	if _, err := w.Write([]byte("x")); !errors.Is(err, errLate) {
		t.Errorf("got %v, want %v", err, errLate)
	}
}

// A key update or an alert may be written at any time; it is no call.
func TestWireTellsTLSControlFromACall(t *testing.T) {
	t.Parallel()
	client, server := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, server) }()
	t.Cleanup(func() { _ = server.Close() })
	w := newWire(client, true)
	t.Cleanup(func() { _ = w.Close() })
	w.arm(time.Now().Add(time.Hour), time.Hour)
	if _, err := w.Write(make([]byte, 27)); err != nil {
		t.Fatal(err)
	}
	if call, _ := w.end(); !call.wroteAt.IsZero() {
		t.Error("a control record counts as a call")
	}
}

func TestWireThatCouldNotWrite(t *testing.T) {
	t.Parallel()
	client, _ := net.Pipe()
	_ = client.Close()
	w := newWire(client, false)
	w.arm(time.Time{}, time.Hour)
	if _, err := w.Write([]byte("x")); err == nil {
		t.Fatal("a write on a closed connection went well")
	}
	if call, alive := w.end(); !call.wroteAt.IsZero() || alive {
		t.Errorf("got %+v, alive %v; want never written", call, alive)
	}
}
