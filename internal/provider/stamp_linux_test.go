//go:build linux && (amd64 || arm64)

package provider

import (
	"net"
	"testing"
	"time"
)

// stamps waits until the kernel says when bytes come: it begins to some time after the first socket has asked for it.
func stamps(t *testing.T, from net.Conn, to *stamped) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 1000 {
		if _, err := from.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		if _, err := to.Read(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		if !to.last.late {
			return
		}
		<-tick.C
	}
	t.Fatal("the kernel says of no byte when it came")
}

// A read that comes late says when the bytes were sent.
func TestALateReadKnowsWhenItsBytesCame(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	from, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = from.Close() })
	to, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = to.Close() })
	s := newStamped(to, time.Now())
	if s.kernel == nil {
		t.Fatal("the kernel does not say when bytes came")
	}
	stamps(t, from, s)
	for range 3 {
		before := time.Since(s.epoch)
		if _, err := from.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		after := time.Since(s.epoch)
		time.Sleep(20 * time.Millisecond) // a longer one shows the same
		// The kernel's clock may be moved towards the right time meanwhile, by half a microsecond a millisecond.
		const slewed = 100 * time.Microsecond
		if n, err := s.Read(make([]byte, 100)); n != 5 || err != nil || s.last.late || s.last.at < before-slewed || s.last.at > after+slewed {
			t.Errorf("got %d bytes, %v and %+v, want the time of the write, from %v to %v", n, err, s.last, before, after)
		}
	}
	_ = from.Close()
	if n, err := s.Read(make([]byte, 1)); n != 0 || err == nil || err.Error() != "EOF" {
		t.Errorf("got %d bytes and %v, want the end", n, err)
	}
}
