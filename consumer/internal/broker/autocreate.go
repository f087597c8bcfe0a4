package broker

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// kafka-go's group membership asks for its topic with AllowAutoTopicCreation, and
// has no setting for that. On a broker that creates topics, a deleted topic would
// come back empty, with the broker's own number of partitions. So the connections
// of the membership clear that flag in each request that they write.

// dialReadOnly opens a connection that creates no topic.
func (c *Client) dialReadOnly(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := c.dialBelow(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &readOnlyConn{Conn: conn}, nil
}

// readOnlyConn belongs to one writer at a time.
type readOnlyConn struct {
	net.Conn
	requests requestStream
}

func (c *readOnlyConn) Write(b []byte) (int, error) {
	return c.Conn.Write(c.requests.clearCreation(b))
}

// Requests begin with their size, their kind and their version.
const requestHead = 4 + 2 + 2

// requestStream follows the requests in what a client writes.
type requestStream struct {
	head [requestHead]byte
	have int // of head
	left int // bytes of the request behind head
}

// clearCreation returns b with the flag cleared in requests that end in it. It
// leaves b itself alone.
func (s *requestStream) clearCreation(b []byte) []byte {
	out := b
	for i := 0; i < len(b); {
		if s.have < requestHead {
			n := copy(s.head[s.have:], b[i:])
			s.have, i = s.have+n, i+n
			if s.have == requestHead {
				s.left = int(binary.BigEndian.Uint32(s.head[:])) - (requestHead - 4)
			}
		} else {
			n := min(max(s.left, 0), len(b)-i)
			s.left, i = s.left-n, i+n
		}
		if s.have < requestHead || s.left > 0 {
			continue
		}
		if s.mayCreate() {
			if &out[0] == &b[0] {
				out = bytes.Clone(b)
			}
			out[i-1] = 0
		}
		s.have = 0
	}
	return out
}

// mayCreate tells whether a request ends with the flag: it asks for metadata, in
// a version that has the flag and nothing behind it. kafka-go writes version 6.
func (s *requestStream) mayCreate() bool {
	kind, version := binary.BigEndian.Uint16(s.head[4:]), binary.BigEndian.Uint16(s.head[6:])
	return kmsg.Key(kind) == kmsg.Metadata && version >= 4 && version <= 7
}
