package slots

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Who waits for a slot is woken by a timer of the kernel: the process has one as a file.
func TestAWaitForASlotHasATimerOfTheKernel(t *testing.T) {
	t.Parallel()
	at := time.Now().Add(time.Millisecond)
	if err := (Slot{NotBefore: at, NotAfter: at.Add(time.Hour)}).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if time.Now().Before(at) {
		t.Error("the wait was over before the slot")
	}
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if to, _ := os.Readlink(link); to == "anon_inode:[timerfd]" {
			return
		}
	}
	t.Errorf("got %d files, and no timer among them", len(links))
}
