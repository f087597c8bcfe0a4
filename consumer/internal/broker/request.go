package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// maxAnswer bounds an answer: the largest batch that is fetched, with room for the
	// other fields.
	maxAnswer = MaxFetchBytes + 16<<20
	// maxKeptBuffer is the largest answer whose memory is kept for the next one.
	maxKeptBuffer = 2 << 20
)

// rawConn is one connection to a broker. It carries the requests that kafka-go does not know,
// or whose answers kafka-go reads at too high a cost. kafka-go opens and authenticates it. One
// goroutine at a time uses it.
type rawConn struct {
	conn          net.Conn
	clientID      string
	versions      map[int16]kafka.ApiVersion // that the broker speaks, by kind of request
	correlationID int32                      // of the last request
	request       []byte                     // buffer, reused
	idleSince     time.Time
}

// Request sends a request to the broker at an address, in a version up to maxVersion, and
// passes the answer to use. The memory of the answer is reused when use returns.
func (c *Client) Request(ctx context.Context, addr string, req kmsg.Request, maxVersion int16, use func(kmsg.Response) error) error {
	w := c.idle.take(addr)
	if w == nil {
		var err error
		if w, err = c.openConn(ctx, addr); err != nil {
			return err
		}
	}
	buf, _ := c.buffers.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
	}
	defer func() {
		if cap(*buf) <= maxKeptBuffer {
			c.buffers.Put(buf)
		}
	}()
	conn := w.conn
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	res, err := w.exchange(req, maxVersion, buf)
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

// errSilent is the cause when a broker does not let a client in within dialTimeout.
var errSilent = fmt.Errorf("the broker did not answer within %v: %w", dialTimeout, context.DeadlineExceeded)

// openConn lets kafka-go open and authenticate a connection, and keeps the net.Conn below it.
// kafka-go sets no deadline while it authenticates, so openConn closes the connection when the
// context ends.
func (c *Client) openConn(ctx context.Context, addr string) (*rawConn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dialTimeout, errSilent)
	defer cancel()
	var below net.Conn
	stop := func() bool { return true }
	d := *c.Dialer
	d.DialFunc = func(dial context.Context, network, addr string) (net.Conn, error) {
		conn, err := c.conn.dialBroker(dial, network, addr)
		if err == nil {
			below, stop = conn, context.AfterFunc(ctx, func() { _ = conn.Close() })
		}
		return conn, err
	}
	versions, err := dialForVersions(ctx, &d, addr)
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		if below != nil {
			_ = below.Close()
		}
		return nil, err
	}
	w := &rawConn{conn: below, clientID: d.ClientID, versions: make(map[int16]kafka.ApiVersion, len(versions))}
	for _, v := range versions {
		w.versions[v.ApiKey] = v
	}
	return w, nil
}

// dialForVersions opens a connection, and asks the broker for the requests that it speaks. It
// does not close the connection.
func dialForVersions(ctx context.Context, d *kafka.Dialer, addr string) ([]kafka.ApiVersion, error) {
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return conn.ApiVersions()
}

// exchange sends a request and reads its answer into buf.
func (w *rawConn) exchange(req kmsg.Request, maxVersion int16, buf *[]byte) (kmsg.Response, error) {
	v, ok := w.versions[req.Key()]
	if !ok || v.MinVersion > maxVersion {
		return nil, fmt.Errorf("the broker does not speak version %d of request %d", maxVersion, req.Key())
	}
	req.SetVersion(min(maxVersion, v.MaxVersion))
	w.correlationID++
	w.request = kmsg.NewRequestFormatter(kmsg.FormatterClientID(w.clientID)).AppendRequest(w.request[:0], req, w.correlationID)
	if _, err := w.conn.Write(w.request); err != nil {
		return nil, err
	}
	body, err := w.read(buf)
	if err != nil {
		return nil, err
	}
	res := req.ResponseKind()
	return res, decodeAnswer(res, body)
}

// read returns an answer without its size and correlation id.
func (w *rawConn) read(buf *[]byte) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(w.conn, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size < 4 || size > maxAnswer {
		return nil, fmt.Errorf("the broker announced an answer of %d bytes, want 4 to %d", size, maxAnswer)
	}
	*buf = slices.Grow((*buf)[:0], int(size))[:size]
	if _, err := io.ReadFull(w.conn, *buf); err != nil {
		return nil, err
	}
	if got := int32(binary.BigEndian.Uint32(*buf)); got != w.correlationID {
		return nil, fmt.Errorf("the broker answered request %d, want %d", got, w.correlationID)
	}
	return (*buf)[4:], nil
}

// decodeAnswer decodes an answer without its size and correlation id.
func decodeAnswer(res kmsg.Response, body []byte) error {
	if res.IsFlexible() {
		if len(body) == 0 || body[0] != 0 { // the number of tags in the head; Kafka defines none yet
			return errors.New("the answer has an unknown head")
		}
		body = body[1:]
	}
	if err := res.ReadFrom(body); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}
