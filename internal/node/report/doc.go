// Package report shows operators what the provider answers: in the log, as metrics
// and in /readyz. It decides nothing; the circuit breaker does that.
//
// The log has one line at the first failure of each kind, then sums with a rate. A
// line says what to do where that is known. When calls succeed again for ten
// seconds, one line says so.
//
// [Provider.Run] is the package's only goroutine; the node starts it. All other methods may be called from
// any goroutine.
package report
