// Package fetch reads the partitions of an assignment and hands their records, decoded as
// jobs, to the scheduler. It asks each broker for all partitions that the broker leads at
// once.
//
// It does not decide which job goes next, and it commits nothing. A partition that has
// enough waiting is not fetched.
//
// Goroutines: [Fetcher.Run] is one, which decides what is asked for. It starts one for each
// request, up to two long polls and two reads a broker, and returns after the last of them.
// A fault of the network never ends Run; its partitions are tried again beside the others.
package fetch
