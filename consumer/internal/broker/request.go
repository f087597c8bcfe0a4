package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// maxAnswer bounds what a broker may send: the largest batch that is asked
	// for, with room for the rest of an answer.
	maxAnswer = MaxFetchBytes + 16<<20
	// keptAnswer bounds the memory that an answer leaves behind for the next one.
	keptAnswer = 2 << 20
	// connIdle is how long a connection without a request is kept.
	connIdle = time.Minute
)

// rawConn is one connection to a broker. It carries the requests that kafka-go
// does not know, or whose answers it reads at too high a cost. kafka-go opens it
// and authenticates. One goroutine at a time uses it.
type rawConn struct {
	conn   net.Conn
	id     string                     // the client's
	spoken map[int16]kafka.ApiVersion // versions of each request that the broker speaks
	asked  int32                      // requests sent; each is numbered
	out    []byte                     // reused
	since  time.Time                  // when it became idle
}

// wires are a client's connections without a request, by the broker's address.
type connPool struct {
	mu     sync.Mutex
	idle   map[string][]*rawConn
	closed bool
}

// grab returns an idle connection to a broker; nil: there is none.
func (s *connPool) grab(addr string) *rawConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.idle[addr]
	if len(all) == 0 {
		return nil
	}
	w := all[len(all)-1]
	s.idle[addr] = all[:len(all)-1]
	return w
}

// put keeps a connection for the next request, and closes those that had none
// for long.
func (s *connPool) put(addr string, w *rawConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = w.conn.Close()
		return
	}
	w.since = time.Now()
	if s.idle == nil {
		s.idle = make(map[string][]*rawConn)
	}
	s.idle[addr] = append(s.idle[addr], w)
	for other, all := range s.idle {
		s.idle[other] = slices.DeleteFunc(all, func(old *rawConn) bool {
			stale := w.since.Sub(old.since) > connIdle
			if stale {
				_ = old.conn.Close()
			}
			return stale
		})
	}
}

func (s *connPool) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, all := range s.idle {
		for _, w := range all {
			_ = w.conn.Close()
		}
	}
	s.idle = nil
}

// Request sends a request to the broker at an address, in a version of at most most,
// and gives its answer to use. The answer's bytes are reused after that.
func (c *Client) Request(ctx context.Context, addr string, req kmsg.Request, most int16, use func(kmsg.Response) error) error {
	w := c.idle.grab(addr)
	if w == nil {
		var err error
		if w, err = c.openConn(ctx, addr); err != nil {
			return err
		}
	}
	buf, _ := c.answers.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
	}
	defer func() {
		if cap(*buf) <= keptAnswer {
			c.answers.Put(buf)
		}
	}()
	conn := w.conn
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	res, err := w.exchange(req, most, buf)
	if stop() && err == nil {
		c.idle.put(addr, w)
	} else {
		_ = conn.Close()
	}
	if err != nil {
		return err
	}
	return use(res)
}

// openConn has kafka-go authenticate, and keeps the connection below it.
func (c *Client) openConn(ctx context.Context, addr string) (*rawConn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var below net.Conn
	d := *c.Dialer
	d.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := c.dialBelow(ctx, network, addr)
		below = conn
		return conn, err
	}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	versions, err := conn.ApiVersions()
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	w := &rawConn{conn: below, id: d.ClientID, spoken: make(map[int16]kafka.ApiVersion, len(versions))}
	for _, v := range versions {
		w.spoken[v.ApiKey] = v
	}
	return w, nil
}

// exchange sends a request and reads its answer into buf.
func (w *rawConn) exchange(req kmsg.Request, most int16, buf *[]byte) (kmsg.Response, error) {
	v, ok := w.spoken[req.Key()]
	if !ok || v.MinVersion > most {
		return nil, fmt.Errorf("the broker does not speak version %d of request %d", most, req.Key())
	}
	req.SetVersion(min(most, v.MaxVersion))
	w.asked++
	w.out = kmsg.NewRequestFormatter(kmsg.FormatterClientID(w.id)).AppendRequest(w.out[:0], req, w.asked)
	if _, err := w.conn.Write(w.out); err != nil {
		return nil, err
	}
	body, err := w.read(buf)
	if err != nil {
		return nil, err
	}
	res := req.ResponseKind()
	return res, decodeAnswer(res, body)
}

// read returns an answer behind its number.
func (w *rawConn) read(buf *[]byte) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(w.conn, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size < 4 || size > maxAnswer {
		return nil, fmt.Errorf("an answer of %d bytes", size)
	}
	*buf = slices.Grow((*buf)[:0], int(size))[:size]
	if _, err := io.ReadFull(w.conn, *buf); err != nil {
		return nil, err
	}
	if got := int32(binary.BigEndian.Uint32(*buf)); got != w.asked {
		return nil, fmt.Errorf("an answer to request %d, want %d", got, w.asked)
	}
	return (*buf)[4:], nil
}

// decodeAnswer reads an answer behind its number.
func decodeAnswer(res kmsg.Response, body []byte) error {
	if res.IsFlexible() {
		if len(body) == 0 || body[0] != 0 { // the head's tags; there are none yet
			return errors.New("the answer has a head that is not known")
		}
		body = body[1:]
	}
	if err := res.ReadFrom(body); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}
