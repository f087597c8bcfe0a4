package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// calmPercent is how much of what is in use the heap may grow by until it is collected. A node has a few MiB in use, and the
	// garbage of its calls would start dozens of collections a second.
	calmPercent = 400
	// mostGarbage bounds that growth where much is in use: a node with a long backlog has 80 MiB.
	mostGarbage = 96 << 20
	// leastPercent goes before mostGarbage: below it, collections would take more time than they save memory.
	leastPercent = 100
)

// calmCollector lets the heap grow by calmPercent or mostGarbage, whichever is less, but at least by leastPercent. GOGC overrides it.
func calmCollector() {
	if os.Getenv("GOGC") == "" {
		regulate(nil)
	}
}

// regulate fits the growth to what is in use, now and after each collection, until done closes.
func regulate(done <-chan struct{}) {
	fit := func() { debug.SetGCPercent(growth(inUse())) }
	fit()
	afterCollections(done, fit)
}

// growth is by how many per cent of what is in use the heap may grow.
func growth(inUse uint64) int {
	percent := min(mostGarbage*100/max(inUse, 1), calmPercent)
	return max(int(percent), leastPercent) //nolint:gosec // at most calmPercent
}

// inUse is how many bytes the last collection found in use.
func inUse() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// afterCollections calls a function after each collection, on a goroutine of the runtime, until done closes.
func afterCollections(done <-chan struct{}, call func()) {
	type unused struct{ _ *int } // a pointer keeps it out of blocks of tiny objects, which may live longer
	runtime.AddCleanup(new(unused), func(done <-chan struct{}) {
		select {
		case <-done:
		default:
			call()
			afterCollections(done, call)
		}
	}, done)
}
