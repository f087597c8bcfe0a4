// Package sender makes one outbound call and reports its result: render the request,
// get a connection, ask for the permit, write, read the answer.
//
// # What it does not do
//
// It does not know the limiter, Kafka, or what follows a result. It never calls
// twice: it follows no redirect and repeats nothing by itself, so one permit is one
// call at the provider. It speaks HTTP/1.1 only, makes one call at a time on a
// connection, and uses no proxy.
//
// # How it works
//
// [Sender.Send] renders the whole request, takes an idle connection or dials one
// (TLS included), and only then asks for the [Permit]. After the permit, all that is
// left is one buffer that leaves in one write, where headers and body are up to 32 KiB.
//
// A caller that paces its calls gets a connection before it reserves time for a
// call. It waits for one with [Sender.Await], reserves it with [Sender.Take], and
// calls with [Sender.SendOn]. Meanwhile spare connections are dialled ahead, see
// [Demand] and package conns.
//
// A connection checks the permit's use-by once more at the first write. If it has
// passed, no byte leaves, and the sender asks for another permit. So a goroutine
// that was not scheduled for a while costs a permit, and never makes a late call.
//
// The call's timeout begins at the first write. Until then the caller's context ends
// everything. From then on it ends nothing, because nobody knows whether a cancelled
// call was done. [Sender.Close] ends calls in flight as well.
//
// # Results
//
// Every HTTP status has one [Kind]: by default those of the table in docs/results.md,
// and over them those in [Results]. An error before the first byte left is
// [Unavailable]. It is [NotSent] where the permit was refused or the wait for a
// connection was ended, and [Rejected] where the job can't be rendered. An error after
// it, without a status line, is [Unknown]. A status counts even if the body behind it is
// cut or hangs.
//
// # Goroutines
//
// This package starts none. Package conns has one for each dial ahead, and net/http
// two for each connection. They end with the dial or the connection, at the latest in
// [Sender.Close].
//
// # Failure
//
// A connection that died before the write costs a permit, and the sender tries again
// on another. The third of one call makes it [Unavailable]. A connection that was
// idle for too long when the permit came is dropped for a new one, once in a call.
//
// # Reasons
//
// A body in memory that net/http knows, a write buffer of 32 KiB, and TLS records that are not
// split at the start: so a call of up to 32 KiB is one write. TLS's own small records
// (under 32 bytes) pass below without being taken for the call.
//
// A connection comes first, the slot last: a slot that is asked for before a connection is
// there passes while one is dialled. Nothing is dialled ahead while the limit gives no slots.
// Where the limit is so slow that connections grow old between two slots, one is opened when
// the node may ask for a slot, and no earlier. While no connection is open, each dial that fails goes to a worker
// with a job and without a slot, and becomes Unavailable. So the breaker sees an
// outage, and probes. The failure counts against no job. Where a provider refuses more connections than
// are open, the caller waits for one of these.
package sender
