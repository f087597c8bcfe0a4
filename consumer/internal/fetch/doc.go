// Package fetch reads the partitions of an assignment, decodes their records as jobs, and
// gives these to package schedule.
//
// It does not decide which job goes next, and it commits nothing.
//
// One request asks a broker for all partitions that it leads and that are due. A partition is left
// out of requests while it has no room for more jobs, or while the node's budget of bytes is
// used up and the partition holds its share.
//
// Goroutines: [Fetcher.Run] is one; it chooses the partitions of each request. It starts one
// for each request, up to two long polls and two plain reads a broker, and returns after the
// last of them.
//
// Failure: a fault of the network never ends Run. The partitions concerned are tried again
// after a delay, the others go on.
//
// # Reasons
//
// A broker has at most two long polls and two plain reads under way, so a partition that joins
// late does not wait for the poll of the others. Long polls that are under way at once end at
// the same time, and then become one. A partition that got records is named after the others
// in the next request, because a broker fills an answer (1 MiB) in the order of the request.
//
// After a long poll the next one waits 1 ms, and 25 µs for each partition. Records that arrive
// one by one would otherwise cost a request about all partitions each.
//
// A batch is kept in blocks of up to 16 jobs and 12 KiB, or of one job that is larger. Go frees an array when nothing in it is used
// any more, so one job that sleeps until tomorrow would keep the array of its whole batch, of which the bound on sleepers knows nothing.
//
// Topics are never created by asking for them. kafka-go's group membership asks for its topic
// with AllowAutoTopicCreation and has no setting for that, so broker/autocreate.go clears the
// flag in what these connections write.
package fetch
