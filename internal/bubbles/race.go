//go:build race

package bubbles

import (
	"runtime"
	"sync"
)

// narrowed counts the bubbles that want one processor: tests may run beside each other.
var narrowed struct { //nolint:gochecknoglobals // GOMAXPROCS belongs to the whole process
	sync.Mutex
	bubbles, processors int
}

// narrow leaves Go one processor until the last bubble that asked for it is over.
func narrow() (restore func()) {
	narrowed.Lock()
	defer narrowed.Unlock()
	if narrowed.bubbles++; narrowed.bubbles == 1 {
		narrowed.processors = runtime.GOMAXPROCS(1)
	}
	return func() {
		narrowed.Lock()
		defer narrowed.Unlock()
		if narrowed.bubbles--; narrowed.bubbles == 0 {
			runtime.GOMAXPROCS(narrowed.processors)
		}
	}
}
