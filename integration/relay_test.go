package integration

import (
	"io"
	"net"
	"sync"
	"testing"
)

// relay is a way to a server that can be cut, for one node alone.
type relay struct {
	addr, to string
	listener net.Listener
	done     sync.WaitGroup

	mu    sync.Mutex
	isCut bool
	open  map[net.Conn]bool
}

func startRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{addr: l.Addr().String(), to: to, listener: l, open: map[net.Conn]bool{}}
	r.done.Go(r.accept)
	t.Cleanup(func() {
		_ = l.Close()
		r.cut(true)
		r.done.Wait()
	})
	return r
}

// cut ends the connections there are and takes no others, or takes them again.
func (r *relay) cut(yes bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.isCut = yes
	for c := range r.open {
		if yes {
			_ = c.Close()
		}
	}
}

// keep takes a connection in; false: the way is cut.
func (r *relay) keep(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isCut {
		_ = c.Close()
		return false
	}
	r.open[c] = true
	return true
}

func (r *relay) drop(c net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, c)
	_ = c.Close()
}

func (r *relay) accept() {
	for {
		near, err := r.listener.Accept()
		if err != nil {
			return
		}
		if r.keep(near) {
			r.done.Go(func() { r.pass(near) })
		}
	}
}

// pass copies both ways until either side ends.
func (r *relay) pass(near net.Conn) {
	defer r.drop(near)
	far, err := net.Dial("tcp", r.to) //nolint:noctx // closed with the relay
	if err != nil || !r.keep(far) {
		return
	}
	defer r.drop(far)
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(near, far)
		r.drop(near)
	})
	_, _ = io.Copy(far, near)
	r.drop(far)
	back.Wait()
}
