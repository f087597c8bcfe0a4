// Package clock maps Redis's clock to a node's monotonic one, and computes the times of
// slots. Times on Redis's clock are in µs since 1970.
//
// A [Clock] belongs to one goroutine. A [Schedule] is a value; its arithmetic is exact
// in integers, as that of the scripts.
package clock
