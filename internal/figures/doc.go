// Package figures has each node say what only it knows, so that any node can answer for the fleet.
//
//	node ──once a second──► dispatcher:{namespace}:figures                what each node says of itself, as JSON
//	                        dispatcher:{namespace}:seconds:<half minute>  calls of the whole fleet in each second
//	any node, `dispatcher status` ◄── [Read], [ReadCalls]
//
// [Publisher] writes, in one round trip a second and node. The replies say which rules are in force, for [Options.Rules].
//
// The seconds are those of Redis's clock. A second's counts are the difference of a counter at its two ends, so none is counted twice
// or left out between two that were written.
//
// # What it does not do
//
// It does not know where figures come from: [Options.Take] does. It adds nothing up over nodes; package overview does.
//
// # Who owns which goroutine
//
// [Publisher.Run] works on its caller's goroutine and starts none.
//
// # Failure
//
// While Redis does not answer nothing is published. The calls of that time are missing in the seconds, and the sums of each node
// have them. What a node said grows old, and [Node.Age] tells. A node that was killed is gone after a minute. What a node says has
// at most [MostText] bytes; seconds stay for an hour.
package figures
