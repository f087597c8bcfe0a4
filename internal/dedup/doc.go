// Package dedup remembers in Redis which jobs are being sent and which
// were, so that a job that Kafka delivers again is not sent again.
//
// A job is claimed right before its call is written and done when the answer is
// there; a claim whose call was not written, or surely did nothing, is released.
// Who finds a job done settles it without a call. Who finds it claimed by
// somebody else waits until that call must be over; if it is still claimed then,
// nobody knows what became of it.
//
// Most callers use [Store.Open] and, on the [Entry], [Entry.Claim] and
// [Entry.Done] or [Entry.Release]. [Store.Look] asks without claiming.
//
// # Calls
//
// [Store.Run] is one goroutine that gathers entries and brings a batch of them
// to Redis in one call of lua/dedup.lua. A claim says by when it is needed, and
// waits for company until shortly before; the rest rides along.
//
// # Time
//
// A claim stands for the longest a call may take and twice the margin, by
// Redis's clock. Its owner may begin the call within one margin of asking, by
// its own monotonic clock, and has the other to say that it is done. So nobody
// needs to know who is alive.
//
// # Failure
//
// Without Redis nothing is granted: claims wait. A lost reply is asked for again
// and answered the same. What is not known is never guessed: an entry that Redis
// has lost (evicted, failed over, expired) is a job that was never sent.
//
// # Memory
//
// An entry is ten bytes of the id's SHA-256 in a hash of about a hundred, packed
// by Redis. Whole hashes expire; nothing is scanned. Generations follow one
// another every half window, so that an entry is kept for one to one and a half.
package dedup
