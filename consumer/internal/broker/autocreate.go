package broker

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// kafka-go's group membership requests metadata with AllowAutoTopicCreation, and has no
// setting for that. A broker that creates topics would create a deleted topic again, empty
// and with the broker's default number of partitions. So the connections of the membership
// clear the flag in each request that they write.

// dialNoCreate opens a connection that never creates a topic. [Client.Dialer] then authenticates
// it, by the deadline of ctx.
func (c *Client) dialNoCreate(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := c.conn.dialBroker(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	closeAtDeadline(ctx, conn)
	return noCreateConn{conn}, nil
}

// closeAtDeadline closes a connection whose authentication lasts beyond the deadline of its
// dial: kafka-go sets no deadline on the connection. A cancel has no effect, since kafka-go
// cancels the context when the connection is ready.
func closeAtDeadline(ctx context.Context, conn net.Conn) {
	context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			_ = conn.Close()
		}
	})
}

// noCreateConn passes each request on with the flag cleared.
type noCreateConn struct{ net.Conn }

func (c noCreateConn) Write(b []byte) (int, error) {
	if mayCreate(b) {
		b = bytes.Clone(b)
		b[len(b)-1] = 0
	}
	return c.Conn.Write(b)
}

// mayCreate tells whether the flag is the last byte: b is a metadata request in a version that
// has the flag and no field behind it. kafka-go writes version 6. It writes a request of up to
// 4 KiB at once, and the membership asks for one topic at a time.
func mayCreate(b []byte) bool {
	if len(b) < 8 || int(binary.BigEndian.Uint32(b)) != len(b)-4 {
		return false
	}
	kind, version := binary.BigEndian.Uint16(b[4:]), binary.BigEndian.Uint16(b[6:])
	return kmsg.Key(kind) == kmsg.Metadata && version >= 4 && version <= 7
}
