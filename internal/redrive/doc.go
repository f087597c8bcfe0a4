// Package redrive replays or drops dead letters in the background of a node, for an operator who does not wait for the end.
//
//	request ──► [Service] of one node ──► package dlq, batch by batch ──► Kafka
//	               │ each second
//	               ▼
//	        dispatcher:{namespace}:redrives ◄── any node: list, stop
//
// A run is one such command: which letters of one topic, at what rate, by whom and why. Redis holds how far it is, so each node
// can show it and ask it to stop. Starts, requests to stop and ends are written down in a stream.
//
// # What it does not do
//
// It does not decide which letters are settled: package dlq does, and Kafka remembers that. It does not go on with a run whose node
// has ended: an operator starts it again, and what was done stays done. It does not count all matching letters before it begins:
// [Run].Matched counts those that were read so far, and [Run].Read of [Run].ToRead offsets says how far the run is.
//
// # How it works
//
// [Service.Start] writes the run into Redis by a script, which refuses it where another run began meanwhile. A node has one run
// at a time, and a topic too. Then the service hands the run to [Service.Run]. That one writes the run each second. The reply
// brings a request to stop, if there is one. A run ends between two batches, so what it has written it has also settled.
//
// # Who owns which goroutine
//
// [Service.Run] works on its caller's goroutine, and has one more for each run, which settles the letters. When the node ends,
// Run waits for that one, ten seconds at most: a batch that Kafka does not acknowledge may take longer. Then it tries for five more
// to write the end of the run into Redis.
//
// # Failure
//
// A run whose node has not written for [LostAfter] is shown as lost. After Redis's clock was set back by less than that, it takes up to
// twice as long; after a larger step, a run that goes on may be shown as lost until its next second. A node that can't write to
// Redis for somewhat less ends its run, since nobody could stop it any more. A node that was frozen for longer than that may go on beside a new run for up to a second.
// Package dlq keeps the two apart: Kafka refuses the commit of the older one, so at most one batch is written twice. Where Redis
// loses its data, the run that goes on is back with its next second, and the others are gone. Where Redis answers a start too late,
// nothing runs, and what it wrote is shown as lost ten seconds later.
package redrive
