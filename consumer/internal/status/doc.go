// Package status is what operators see of the jobs of a node: a [Lane] and a [Partition] in figures, where a job is ([Stay]) and
// how far its partition has come ([Progress]), and the largest piles of jobs that wait for the same ([Piles]).
//
// # What it does not do
//
// It looks at no job and decides nothing: the scheduler fills in what it finds under its lock. It has no lock, starts no goroutine,
// and nothing in it fails.
package status
