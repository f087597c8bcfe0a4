package sender

import (
	"context"
	"time"

	"dispatcher/sender/internal/conns"
)

// ErrClosed is the error of a call after [Sender.Close].
var ErrClosed = conns.ErrClosed

// Demand says what needs connections: Jobs is how many could be called now, and
// Every is the time from one call to the next at the rate of the limit. No more
// connections are dialled ahead than there are Jobs. Lacked is how many found none just
// now; [Sender.Prepare] has as many dialled.
type Demand = conns.Demand

// Conn is a connection that is reserved for one call, or the error of one that
// could not be opened. The zero value is neither: the call gets a connection itself.
type Conn struct {
	pool *conns.Pool
	c    *conns.Conn
	err  error
	at   time.Time // of err
}

// Unreached takes the place of a connection that could not be opened just now. Its
// call is not made, and the result is [Unavailable] with this error. A call that
// begins more than 100 ms later ignores the error and opens a connection.
func Unreached(err error) Conn { return Conn{err: err, at: time.Now()} }

// IsZero reports whether there is neither a connection nor an error.
func (c *Conn) IsZero() bool { return c.c == nil && c.err == nil }

// Release gives the connection back, unless a call has taken it. It may be called
// again.
func (c *Conn) Release() {
	if c.c != nil {
		c.pool.Put(c.c)
	}
	*c = Conn{}
}

// Prepare reports whether an idle connection is there. It begins the dials that the
// demand needs, and doesn't wait for them.
func (s *Sender) Prepare(d Demand) bool { return s.pool.Prepare(d) }

// Await waits until an idle connection is there, and dials meanwhile as many as the
// demand needs. It returns the context's cause when that ends first, and else why a
// connection could not be opened. Each dial that fails while no connection is open
// is returned once; a caller makes it the result of a call with [Unreached].
func (s *Sender) Await(ctx context.Context, d Demand) error { return s.pool.Await(ctx, d) }

// Take reserves an idle connection; the zero value: there is none.
func (s *Sender) Take() Conn {
	c, err := s.pool.Get()
	if c == nil || err != nil {
		return Conn{}
	}
	return Conn{pool: s.pool, c: c}
}

// connection takes the reserved one or an idle one. It dials one where there
// is none, or where fresh asks for it.
func (s *Sender) connection(ctx context.Context, on *Conn, fresh bool) (*conns.Conn, error) {
	set := *on
	*on = Conn{}
	if set.c != nil || set.err != nil && time.Since(set.at) <= conns.FailureLasts {
		return set.c, set.err
	}
	if !fresh {
		if c, err := s.pool.Get(); c != nil || err != nil {
			return c, err
		}
	}
	return s.pool.Dial(ctx)
}
