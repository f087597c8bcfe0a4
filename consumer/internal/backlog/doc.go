// Package backlog counts the jobs of a lane that wait for their turn, and how fast jobs leave the lane.
//
// A [Counter] counts jobs in the order in which they came, and those of them that expire. Each job costs constant time, and the size does
// not grow with the jobs: where there are many, it counts in larger blocks of places and longer ticks of time, until none waits any
// more. A [Rate] is how many jobs a second were settled lately.
//
// # What it does not do
//
// It knows no queue and decides nothing: it is for operators. Its caller tells it of each job that comes and goes, and guards it with
// a lock. It starts no goroutine, and nothing in it fails.
package backlog
