// Package clock maps Redis's clock to a node's monotonic one, and computes the times of
// slots. Times on Redis's clock are in µs since 1970.
//
// It reads no clock, asks nobody and starts no goroutine: readings are arguments. A [Clock] belongs
// to one goroutine, that of the limiter which reserves. A [Schedule] is a value; its arithmetic is exact
// in integers, as that of the scripts.
package clock
