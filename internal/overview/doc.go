// Package overview tells what a whole fleet does at one moment: its nodes, lanes and topics, what holds its jobs up, and when
// they will be gone. The HTTP API, the page and `dispatcher status` show it.
//
// It puts together what Redis knows of the first limit (package limits) and what the nodes say of themselves (package figures).
//
// # What it does not do
//
// It keeps no state, changes nothing, and judges no limit: the limiter does that.
//
// # Who owns which goroutine
//
// It starts none.
//
// # Failure
//
// Figures that are older than [Stale] are shown with their age, and count for nothing. Where no node has newer ones, the health
// is [Unknown].
package overview
