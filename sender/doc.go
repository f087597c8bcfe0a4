// Package sender makes one outbound call and reports what happened: render,
// connection, permit, write, answer.
//
// # What it does not do
//
// It does not know the limiter, Kafka, or what a result leads to. It never
// calls twice: no redirect is followed and nothing is sent again by itself, so
// one permit is one call at the provider. It speaks HTTP/1.1 only, one call a
// connection at a time, and uses no proxy.
//
// # How it works
//
// [Sender.Send] renders the request completely, takes an idle connection or
// dials one (TLS included), and only then asks for the [Permit]. A caller that
// paces its calls gets a connection before it reserves time for a call: it
// awaits one with [Sender.Await], sets it aside with [Sender.Take], and calls with
// [Sender.SendOn]. Meanwhile connections are dialled ahead, as many as the waits for
// them show to be needed, and never more than there are jobs ([Demand]).
// What is left
// between the permit and the wire is one buffer that is flushed in one write.
//
// Below TLS every connection is wrapped. The wrapper is armed with the
// permit's use-by just before the call; the first write after that stamps the
// time and, where the use-by has passed, refuses: nothing leaves, the
// connection is given up, and the permit is asked for again. A goroutine that
// was not scheduled for a while therefore costs a permit, and never makes a
// late call. What remains is what happens inside the kernel after that check.
//
// The call's timeout begins at the first write. Until then the caller's context
// ends everything; from then on it ends nothing, because a cancelled call on
// the wire is a call of unknown fate. [Sender.Close] ends such calls as well.
//
// # Results
//
// Every HTTP status has one [Kind]: by default those of the table in docs/results.md,
// and over them what [Results] says. An error before the first
// byte left is [Unavailable]; after it, and without a status line, [Unknown]. A
// status decides even where the body behind it is cut or hangs.
//
// # Goroutines
//
// This package starts one for each dial ahead, which ends with the dial, at the
// latest in [Sender.Close]. net/http runs two a connection; they
// end with the connection, at the latest in [Sender.Close]. Idle connections are
// dropped when they are found too old or closed by the peer, at the next call.
// The wait for a permit counts as idle time: a permit that finds its connection
// too old is given up with it, and the call goes on with a fresh one.
package sender
