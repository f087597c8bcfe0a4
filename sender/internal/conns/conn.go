package conns

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"dispatcher/internal/boottime"
)

// usualWait is how long a permit usually takes at most: its slot lies up to one horizon
// ahead. A connection that would grow too old in that time is not taken: the permit would
// be lost with it.
const usualWait = 300 * time.Millisecond

// Conn is one connection to the provider. It carries one call at a time, and belongs
// to one goroutine between [Pool.Get] or [Pool.Dial] and its return to the pool.
type Conn struct {
	client    *http.ClientConn
	raw       *rawConn
	mostIdle  time.Duration // how long it may be idle
	retireAt  time.Time     // no new call from then on; zero: never
	idleSince time.Time     // its last answer, or its dial
}

// HandshakeTime returns the round trip of the TCP handshake; 0: it is not known.
func (c *Conn) HandshakeTime() time.Duration { return c.raw.roundTrip }

// Stale reports whether the connection has been idle for so long that the provider may
// be about to close it.
func (c *Conn) Stale() bool { return c.idleTooLong(time.Now()) }

func (c *Conn) idleTooLong(now time.Time) bool { return c.mayIdle(now) <= 0 }

// mayIdle is for how long the connection may still be idle.
func (c *Conn) mayIdle(now time.Time) time.Duration { return c.mostIdle - now.Sub(c.idleSince) }

// retired reports whether the connection has been open for as long as it may be.
func (c *Conn) retired(now time.Time) bool { return !c.retireAt.IsZero() && !now.Before(c.retireAt) }

// usable reports whether the connection can take a call, as far as one can tell.
func (c *Conn) usable(now time.Time) bool {
	soon := now.Add(min(usualWait, c.mostIdle/2))
	return !c.idleTooLong(soon) && !c.retired(now) && c.client.Err() == nil
}

// RoundTrip makes one call. Its first byte is written before useBy (zero: whenever)
// or not at all, and from then on the answer may take as long as the timeout. The
// caller ends the call with End, after it has read the answer or got an error.
func (c *Conn) RoundTrip(req *http.Request, useBy boottime.Deadline, timeout time.Duration) (*http.Response, error) {
	c.raw.arm(useBy, timeout)
	return c.client.RoundTrip(req)
}

// End ends the call. It returns the outcome, and whether the connection outlived it. net/http has seen its writing goroutine end before RoundTrip returns
// an error, so the result is final.
func (c *Conn) End() (call Call, alive bool) { return c.raw.end() }

// limitIdle shortens the idle time to what the provider announces, less a second for
// the way: a call that is written while the provider closes may or may not be done.
func (c *Conn) limitIdle(answer http.Header) {
	values := answer["Keep-Alive"]
	if len(values) == 0 {
		return
	}
	for param := range strings.SplitSeq(values[0], ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
		if !strings.EqualFold(name, "timeout") {
			continue
		}
		if s, err := strconv.ParseUint(value, 10, 16); err == nil {
			c.mostIdle = min(c.mostIdle, max(0, time.Duration(s)*time.Second-time.Second))
		}
	}
}

// close closes the raw connection first: TLS would wait until its close alert is
// written.
func (c *Conn) close() {
	_ = c.raw.Close()
	_ = c.client.Close()
}
