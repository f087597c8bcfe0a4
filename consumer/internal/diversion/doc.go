// Package diversion decides where a job goes that no worker is to have, or that has to wait: to the dead letters, to a retry topic,
// or to memory.
//
// A job is diverted when it goes to the dead letters or to a retry topic without a worker's decision: it can't be read, has
// expired, is due only later, or was in flight for too long.
//
// # What it does not do
//
// It moves no job and writes no record: the scheduler keeps the diversion with the job, and package settle writes it. It starts no
// goroutine, has no lock, and nothing in it fails.
package diversion
