// Package problem writes an HTTP answer that is an error, as RFC 9457 has it: JSON with status, title and detail, and the faults
// where a value can't be honoured.
//
// # What it does not do
//
// It does not choose the status of an error: the package that serves the request does. It keeps no secret out of a detail.
//
// # Who owns which goroutine
//
// It starts none.
//
// # Failure
//
// A client that is gone does not get its answer, which is no error here.
package problem
