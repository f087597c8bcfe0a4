package broker

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// kafka-go's group membership requests metadata with AllowAutoTopicCreation, and has no
// setting for that. A broker that creates topics would create a deleted topic again, empty
// and with the broker's default number of partitions. So the connections of the membership
// clear the flag in each request that they write.

// dialNoCreate opens a connection that never creates a topic.
func (c *Client) dialNoCreate(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := c.conn.dialBroker(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &noCreateConn{Conn: conn}, nil
}

// noCreateConn belongs to one writer at a time.
type noCreateConn struct {
	net.Conn
	requests requestStream
}

func (c *noCreateConn) Write(b []byte) (int, error) {
	return c.Conn.Write(c.requests.clearCreation(b))
}

// requestHead is the length of the fields that begin a request: size, kind and version.
const requestHead = 4 + 2 + 2

// requestStream finds the requests in the bytes that a client writes.
type requestStream struct {
	head [requestHead]byte
	have int // bytes of head that are read
	left int // bytes of the request behind head
}

// clearCreation returns b with the flag cleared in each request that ends in b. It does not
// change b itself.
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

// mayCreate tells whether the flag is the last byte of the request: it is a metadata request
// in a version that has the flag and no field behind it. kafka-go writes version 6.
func (s *requestStream) mayCreate() bool {
	kind, version := binary.BigEndian.Uint16(s.head[4:]), binary.BigEndian.Uint16(s.head[6:])
	return kmsg.Key(kind) == kmsg.Metadata && version >= 4 && version <= 7
}
