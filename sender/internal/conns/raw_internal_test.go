package conns

import (
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"dispatcher/internal/boottime"
)

// A host that was suspended between the permit and the write does not write: the
// monotonic clock stood still, and the use-by looks fresh.
func TestNoWriteAfterASuspension(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		slept time.Duration
		want  error
	}{{0, nil}, {500 * time.Microsecond, nil}, {2 * time.Millisecond, errLate}, {time.Hour, errLate}} {
		client, server := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, server) }()
		r := newRawConn(client, false)
		slept := 42 * time.Second
		r.suspended = func() time.Duration { return slept }
		r.arm(boottime.Deadline{At: time.Now().Add(time.Hour), Suspended: slept}, time.Hour)
		slept += row.slept
		if _, err := r.Write(make([]byte, 100)); !errors.Is(err, row.want) {
			t.Errorf("after a suspension of %v: got %v, want %v", row.slept, err, row.want)
		}
		r.end()
		_ = client.Close()
	}
}

func TestNoWriteAfterARefusal(t *testing.T) {
	t.Parallel()
	client, server := net.Pipe()
	r := newRawConn(client, true)
	r.arm(boottime.By(time.Now().Add(-time.Nanosecond)), time.Second)
	for range 2 { // the request, then TLS's close alert
		if _, err := r.Write(make([]byte, 100)); !errors.Is(err, errLate) {
			t.Errorf("got %v, want %v", err, errLate)
		}
	}
	if n, err := server.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("the peer got %d bytes, %v; want none and the end", n, err)
	}
	if call, alive := r.end(); !call.Late || alive || !call.WroteAt.IsZero() {
		t.Errorf("got %+v, alive %v; want late, not alive, never written", call, alive)
	}
}

func TestOnlyTheFirstWriteOfACallIsChecked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, server) }()
		r := newRawConn(client, false)
		begun := time.Now()
		r.arm(boottime.By(begun.Add(time.Second)), time.Minute)
		for range 3 {
			if _, err := r.Write([]byte("x")); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
		}
		call, alive := r.end()
		if !call.WroteAt.Equal(begun) || !alive {
			t.Errorf("got written %v, alive %v; want %v, alive", call.WroteAt, alive, begun)
		}
		time.Sleep(time.Hour) // the timer is off: the connection outlives it
		if _, err := r.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		_ = client.Close()
		_ = server.Close()
	})
}

// What ended before it was written is not written later.
func TestNoWriteOnceTheCallHasEnded(t *testing.T) {
	t.Parallel()
	client, server := net.Pipe()
	t.Cleanup(func() { _ = server.Close() })
	r := newRawConn(client, false)
	r.arm(boottime.Deadline{}, time.Hour)
	r.end()
	if _, err := r.Write([]byte("x")); !errors.Is(err, errLate) {
		t.Errorf("got %v, want %v", err, errLate)
	}
}

// A key update or an alert may be written at any time; it is no call.
func TestATLSControlRecordIsNoCall(t *testing.T) {
	t.Parallel()
	client, server := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, server) }()
	t.Cleanup(func() { _ = server.Close() })
	r := newRawConn(client, true)
	t.Cleanup(func() { _ = r.Close() })
	r.arm(boottime.By(time.Now().Add(time.Hour)), time.Hour)
	if _, err := r.Write(make([]byte, 27)); err != nil {
		t.Fatal(err)
	}
	if call, _ := r.end(); !call.WroteAt.IsZero() {
		t.Error("a control record counts as a call")
	}
}

func TestAWriteThatFailsWasNoCall(t *testing.T) {
	t.Parallel()
	client, _ := net.Pipe()
	_ = client.Close()
	r := newRawConn(client, false)
	r.arm(boottime.Deadline{}, time.Hour)
	if _, err := r.Write([]byte("x")); err == nil {
		t.Fatal("a write on a closed connection went well")
	}
	if call, alive := r.end(); !call.WroteAt.IsZero() || alive {
		t.Errorf("got %+v, alive %v; want never written", call, alive)
	}
}
