// Package dedup remembers in Redis which jobs are being sent and which were sent, so
// that a job that Kafka delivers again is not sent again.
//
// A node claims a job right before the call is written, and completes it when the
// answer is there. It releases a claim whose call was not written or surely did
// nothing. A delivery that finds its job done settles it without a call. A delivery
// that finds its job claimed by another one waits until that call must be over. If
// the claim is still there then, the outcome is unknown.
//
// Most callers use [Store.Open] and, on the [Entry], [Entry.Claim] and [Entry.Done] or
// [Entry.Release]. [Store.Peek] reads without claiming.
//
// # What it does not do
//
// It does not call the provider, commit offsets, or decide what follows an unknown
// outcome.
//
// # How it works
//
// [Store.Run] gathers entries and sends a batch of them to Redis in one call of
// lua/dedup.lua. A claim states when it is needed, and waits for others until shortly
// before. All other entries go with the next call.
//
// A claim stands for the longest call and twice the margin, by Redis's clock. Its
// owner may begin the call within one margin after it asked, by its own monotonic
// clock, and has the other margin to report that it is done. So nobody needs to know
// which nodes are alive.
//
// An entry is ten bytes of the id's SHA-256 in a hash of about a hundred, packed by
// Redis. Whole hashes expire; nothing is scanned. A new generation of hashes begins
// every half window, so an entry is kept for one to one and a half windows.
//
// # Goroutines
//
// One, which calls [Store.Run]. It ends with its context, after it has sent the
// remaining entries as long as Redis answers.
//
// # Failure
//
// Without Redis no claim is granted: claims wait. After a lost reply the same batch
// is sent again and gets the same answers. An entry that Redis has lost (evicted,
// failed over, expired) is a job that was never sent.
package dedup
