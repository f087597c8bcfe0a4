// Package provider is a simulated provider that judges: an HTTP/1.1 server that
// answers by a script, stamps every arrival, and tells afterwards whether a cap
// was kept.
//
// # What it does not do
//
// It checks no bodies and keeps none, and it limits nothing: a call over the
// cap is answered like any other, and is found afterwards. Its clock is its
// own; it knows nothing of when a call was meant to be made.
//
// # How it works
//
// Each connection is a loop of its own around a bare socket. The stamp is taken
// when the read returns that brings the first byte of a request, before that
// byte is looked at. An arrival takes 16 bytes and its key, so that millions
// fit, and nothing that the garbage collector must follow.
//
// [Judge] is a pure function of arrivals, stalls and the [Contract]: it looks
// at every window, wherever it begins. The cap can change on the way: a window
// that begins [Settle] or more after a change is held to the new cap, an
// earlier one that touches it to the larger of the two.
//
// # Who watches the judge
//
// A process that did not run for a while stamps everything that came meanwhile
// at one instant. A thread of its own wakes each millisecond and notes when it
// was held up for longer than the guard. A window that touches such a stall is
// unjudged: neither kept nor broken. [Verdict.Unjudged] is their share.
//
// # Goroutines
//
// [Provider.Run] owns them all: the watch, one a listener, one a connection. It
// returns when they have ended. [Provider.Down] ends the listener and its
// connections, [Provider.Up] makes new ones on the same address.
package provider
