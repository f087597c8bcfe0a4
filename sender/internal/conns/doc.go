// Package conns keeps the connections to one provider: it dials them, keeps the idle
// ones, dials spare ones ahead, and makes one call on a connection at a time.
//
// # What it does not do
//
// It knows neither jobs nor permits, and gives an answer no meaning. It never makes
// a call twice.
//
// # How it works
//
// [Pool] holds the idle connections on a stack. [Pool.Get] takes the one that was
// used last, so that connections nobody needs grow old at the bottom. [Pool.Dial]
// opens one. A caller that paces its calls awaits a connection with [Pool.Await]
// before it reserves time for the call. Meanwhile the pool dials spare connections
// ahead: as many as the waits show to be needed, and no more than jobs wait
// ([Demand]).
//
// Each connection has a layer below TLS, the rawConn. [Conn.RoundTrip] gives it the
// use-by of the call. The first write after that notes the time. If the use-by has
// passed, or the host was suspended meanwhile, the write is refused: no byte leaves,
// and the connection is closed. A goroutine that was not scheduled for a while
// therefore never makes a late call. The remaining delay is the kernel's.
//
// The call's timeout begins at the first write, and closes the connection.
// [Conn.End] returns the outcome of the call.
//
// # Goroutines
//
// One for each dial ahead; it ends with the dial, at the latest in [Pool.Close].
// net/http runs two for each connection, which end with it. The pool looks for
// connections that are too old, or were closed by the provider, when one is taken or
// given back. A timer closes those that nobody takes.
//
// # Failure
//
// A dial ahead that fails is reported to one caller of [Pool.Await], and is not
// repeated unless somebody waits. A failure older than 100 ms is forgotten.
//
// While a connection is open, no failure is reported: a provider, a load balancer or a
// ulimit may refuse more connections than so many. Callers wait until one comes back,
// and the pool dials again after 100 ms. So an outage is noticed later where a call that
// hangs holds the only connection: by the call's timeout at most.
package conns
