// Package fetch reads the partitions of an assignment, decodes their records as jobs, and
// gives these to package schedule.
//
// It does not decide which job goes next, and it commits nothing.
//
// One request asks a broker for all partitions that the broker leads. A partition is left
// out of requests while it has no room for more jobs, or while the node's budget of bytes is
// used up and the partition holds its share.
//
// Goroutines: [Fetcher.Run] is one; it chooses the partitions of each request. It starts one
// for each request, up to two long polls and two plain reads a broker, and returns after the
// last of them.
//
// Failure: a fault of the network never ends Run. The partitions concerned are tried again
// after a delay, the others go on.
package fetch
