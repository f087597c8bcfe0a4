package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"dispatcher/cmd/dispatcher/internal/clitest"
)

func TestGrowthOfTheHeap(t *testing.T) {
	t.Parallel()
	for inUse, want := range map[uint64]int{
		0: 400, 5 << 20: 400, 24 << 20: 400, 32 << 20: 300, 80 << 20: 120, 96 << 20: 100, 1 << 30: 100,
	} {
		if got := growth(inUse); got != want {
			t.Errorf("%d MiB in use: got a growth of %d %%, want %d", inUse>>20, got, want)
		}
	}
}

// The collector follows what is in use: with 64 MiB the heap grows less than with a few, and then again as before.
func TestTheCollectorFollowsWhatIsInUse(t *testing.T) { //nolint:paralleltest // it sets what belongs to the whole process
	done := make(chan struct{})
	defer func(before int) {
		close(done)
		runtime.GC()
		debug.SetGCPercent(before)
	}(debug.SetGCPercent(calmPercent))
	regulate(done)
	backlog := make([]byte, 64<<20)
	awaitGrowth(t, leastPercent, growth(64<<20))
	runtime.KeepAlive(backlog) // it is garbage from here on
	awaitGrowth(t, growth(32<<20), calmPercent)
}

// awaitGrowth collects until the growth is within bounds.
func awaitGrowth(t *testing.T, from, to int) {
	t.Helper()
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	got := 0
	defer func() { t.Logf("got a growth of %d %%", got) }()
	clitest.Await(t, 30*time.Second, fmt.Sprintf("a growth of %d to %d %%", from, to), func() bool {
		runtime.GC()
		metrics.Read(sample)
		got = int(sample[0].Value.Uint64()) //nolint:gosec // a percentage
		return got >= from && got <= to
	})
}
