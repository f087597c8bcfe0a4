// Package worker takes one job at a time from its slot to what follows its call.
//
//	item of the pacer ─► call, which asks for the permit ─► event ─► decision ─► settle, retry, release
//
// A worker visits a job (visit.go): it has the sender make the call. Before it writes, the sender
// asks for the permit. The permit claims the job in the dedup store, if there is one (dedup.go), and waits
// for the slot. One pure function decides what follows the result (decision.go). The worker carries the decision out (worker.go): it
// settles, dead-letters or releases the job, or has it wait for its next call.
//
// The package chooses no job and reserves no slot: package pacer does. A job that misses its slot
// asks the limiter for another one. A job that sleeps keeps no worker, but its history travels
// with it.
//
// It starts no goroutine. Each worker is one that calls [Handler.Work], which ends when the pacer
// does. A visit belongs to its worker's goroutine. The dedup store settles an accepted job on its
// own goroutine.
//
// Failure: what an outage counts against a job: see package breaker. A call without an answer
// follows on_unknown. A job whose slot was given up, that finds the breaker open, or whose question
// the dedup store does not answer for a second, is queued again.
//
// # Reasons
//
// What the worker says to the dedup store:
//
//	when                                              says          then
//	before the slot                                   claim         granted: the write begins before the slot's and the claim's end
//	accepted                                          done, 0       settled when Redis has it; the worker is free at once
//	dead letter after a call that was written         done, class   the worker waits for Redis, then writes result and letter
//	again: throttled, unavailable                     release       asleep, or to a retry topic
//	released                                          release       its offset stays open
//	again: unknown, with retry                        –             the same delivery claims again; another one waits for the end
//
// and what follows the store's answer:
//
//	sent, accepted   done, with the attempts known before and no status
//	sent, else       dead letter as it was, with its class and status
//	busy             polled each 250 ms, or when that call must be over, without a slot; holds its key and its place in flight
//	unknown          dead letter unknown, parked with park. No done is recorded: the node that claimed it may be alive, and record one yet
//	taken over       called
//
// A done that Redis has not taken half a drain after the job's context ended, or after the done if that is later, is tried once
// more, in any case before the drain is over. Then the job is settled either way.
//
// A job that is found expired before its claim becomes a dead letter without asking the
// store, also where it was sent before the crash.
package worker
