package bubbles

import (
	"testing"
	"testing/synctest"
)

// Test runs f as [synctest.Test] does, under the race detector with one processor for
// the whole process.
//
// A bubble has one context of the race detector for all of its timers. A goroutine
// that receives from a channel timer which is due, and blocked on nothing until then,
// runs the timer itself and uses that context. Two of them on two processors spoil it:
// the process dies of SIGSEGV or of a ThreadSanitizer CHECK. With one processor
// nothing runs beside it, but parallel tests of the process are slower as well.
func Test(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	defer narrow()()
	synctest.Test(t, f)
}
