// Package provider is a simulated provider for tests and the demo: an HTTP/1.1 server
// that answers by a script, records the time of every call, and reports afterwards
// whether the calls kept within a cap.
//
// # What it does not do
//
// It neither checks nor keeps bodies, and it limits nothing: it answers a call over the
// cap like any other, and reports it afterwards. It uses its own clock, and does not
// know when a call was meant to be made.
//
// # How it works
//
// Each connection is a loop around a bare socket. On Linux the kernel says when the bytes of
// a call came (see socket(7), SO_TIMESTAMPNS), so nothing that holds this process up changes the
// time of a call. On other systems and with TLS it is the time at which the read with the
// first byte returns. An arrival takes 24 bytes and its key, without pointers for the
// garbage collector, so that millions fit.
//
// A call counts one unit, or as many as its key says: see [Arrival.Units].
//
// [Judge] is a pure function of arrivals, stalls and the [Contract]. It checks every
// window, wherever it begins. The cap can change meanwhile: a window that begins
// [Settle] or more after a change must keep the new cap, and an earlier one that
// overlaps the change the larger of the two.
//
// A process that did not run for a while reads all calls of that time at one
// instant. So a thread wakes each millisecond, and records a stall when it woke too
// late by more than the guard. Where the time of a call is that of a read, a window that
// overlaps a stall is unjudged: neither kept nor broken. [Verdict.Unjudged] is the share
// of such windows. [Report.HeldUp] is the share of the windows that overlap a stall, judged or not.
//
// A [Counter] judges the calls of a provider that runs for days, and lets the provider forget them.
//
// # Goroutines
//
// [Provider.Run] owns all of them: one that watches for stalls, one for each listener
// and one for each connection. It returns when they have ended. [Provider.Down] closes
// the listener and its connections, and [Provider.Up] listens again on the same
// address.
package provider
