package sender_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"dispatcher/internal/boottime"
	"dispatcher/job"
	"dispatcher/sender"
)

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// network hands out pipes instead of sockets, so that a call fits in a bubble,
// and keeps each write to them.
type network struct {
	serve func(n int, c net.Conn, br *bufio.Reader) // n: which connection, from 0

	mu     sync.Mutex
	dials  int
	writes [][]byte
}

func (n *network) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	n.mu.Lock()
	defer n.mu.Unlock()
	id := n.dials
	n.dials++
	go func() {
		n.serve(id, server, bufio.NewReader(server))
		_ = server.Close()
	}()
	return recorded{client, n}, nil
}

func (n *network) seen() (dials int, writes [][]byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials, n.writes
}

type recorded struct {
	net.Conn
	n *network
}

func (r recorded) Write(p []byte) (int, error) {
	r.n.mu.Lock()
	r.n.writes = append(r.n.writes, append([]byte(nil), p...))
	r.n.mu.Unlock()
	return r.Conn.Write(p)
}

// readCall reads one request and reports whether there was one.
func readCall(br *bufio.Reader) bool {
	req, err := http.ReadRequest(br)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, req.Body)
	return err == nil
}

// answering answers every call with these bytes, as they are.
func answering(answer string) func(int, net.Conn, *bufio.Reader) {
	return func(_ int, c net.Conn, br *bufio.Reader) {
		for readCall(br) {
			if _, err := io.WriteString(c, answer); err != nil {
				return
			}
		}
	}
}

func newSender(t *testing.T, o sender.Options) *sender.Sender {
	t.Helper()
	if o.URL == "" {
		o.URL = "http://provider.test/send"
	}
	s, err := sender.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func aJob(id, body string) job.Job {
	return job.Job{ID: id, ContentType: "text/plain", Record: job.Record{Value: []byte(body)}}
}

// always is a permit that is never over, and counts.
func always(count *int) sender.Permit {
	return func(context.Context) (boottime.Deadline, error) {
		*count++
		return boottime.Deadline{}, nil
	}
}

// tally dials TCP and counts the writes below TLS.
type tally struct{ writes atomic.Int64 }

func (n *tally) count() int64 { return n.writes.Load() }

func (n *tally) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	return tallied{c, n}, err
}

type tallied struct {
	net.Conn
	n *tally
}

func (c tallied) Write(p []byte) (int, error) {
	c.n.writes.Add(1)
	return c.Conn.Write(p)
}
