// Package dedup remembers in Redis which jobs are being sent and which were sent, so
// that a job that Kafka delivers again is not sent again.
//
// A node claims a job right before the call is written, and completes it when the
// answer is there. It releases a claim whose call was not written, surely did nothing,
// or was answered with a status that is tried again. A delivery that finds its job done settles it without a call. A delivery
// that finds its job claimed by another one waits until that call must be over. If
// the claim is still there then, the outcome is unknown.
//
// Callers use [Store.Open] and, on the [Entry], [Entry.Permit] and [Entry.Done] or
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
// One, of the caller (Node.Run starts it), which calls [Store.Run]. It ends with its context, after it has sent the
// remaining entries as long as Redis answers.
//
// # Failure
//
// Without Redis no claim is granted: claims wait. After a lost reply the same batch
// is sent again and gets the same answers. Where nothing is queued after a call that failed,
// Run sends empty batches until one is answered, so [Store.Ready] knows that Redis is back.
// An entry that Redis has lost (evicted, failed over, expired) counts as a job that was never sent.
//
// # Reasons
//
//	asked      granted     use-by                                          over
//	  |-----------|----------|------------- call timeout ------|--- margin --|
//	  |        margin        |                          last answer
//
// A claim stands for call timeout + 2 · margin by Redis's clock, as its owner wrote it,
// whatever other nodes are set to. A claim is one delivery's: 64 random bits of the node's
// start and a counter. The same claim again, after a lost reply or for a retry in place, is
// granted again and lasts for a new hold. A release removes claims of its delivery up to its
// number: a delayed one can't end a later claim. A done overwrites whatever is there: that a
// call was answered is true whoever has the claim. A delivery with an unknown call,
// or that took the job over, keeps its claim: the next delivery must learn that the job may have been done.
//
// A claim goes to Redis 1 ms and twice the usual round trip before its slot, at once where
// that is past, with all entries that have gathered. Others wait 8 ms at most. A claim that is
// asked for before that time delays its job by nothing, while Redis answers as fast as usual.
//
// A generation takes entries for half a window, or until it is full, and is kept for a whole
// window after. Entries are looked for in each generation that is kept, 3 as a rule, and written into the
// newest. Where 8 are kept, another one begins only when the half window is over. The next generation gets buckets for twice the rate of
// the last. A node passes its list of generations and the keys that follow from it. Where
// Redis knows another list, it answers with that and does nothing, and the node asks again.
// Another window begins with the next generation.
//
// What is still possible:
//
//   - A crash between claim and done: unknown, and the policy decides. With park or dlq the
//     job is never called again, though it may
//     never have been called. With retry it may be called twice.
//   - Redis loses what it acknowledged (restart without persistence, eviction, FLUSHALL, a
//     failover before replication): the job is
//     free. Only a job that is delivered again is called again.
//   - The job comes again after the window.
//   - A claim that ends more than ten holds ahead was written before Redis's clock was set
//     back; it begins again when the job is next claimed. So a node whose
//     call timeout is more than ten times another's must not share a namespace with it.
//   - Redis's clock steps forward by more than the hold during a call, or Redis is away for
//     longer than the margin when the answer
//     arrives: the job is unknown to the others though its node lives. With retry it may be called again, also when the late done
//     arrives between the grant and the call.
//   - The kernel holds a write back for longer than a call may take, or a process is frozen
//     between its last check and the write.
package dedup
