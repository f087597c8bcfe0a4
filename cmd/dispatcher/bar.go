package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// bar shows how much of the input has been written to Kafka. Where no person
// watches it shows nothing.
type bar struct{ shown *progressbar.ProgressBar }

// newBar makes a bar for size bytes of input, -1 where that can't be known.
func newBar(w io.Writer, size int64) bar {
	if !isTerminal(w) {
		return bar{}
	}
	return bar{progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription("enqueue"),
		progressbar.OptionShowBytes(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)}
}

func (b bar) at(bytes int64) {
	if b.shown != nil {
		_ = b.shown.Set64(bytes) // a bar that can't be drawn is no reason to stop
	}
}

func (b bar) end() {
	if b.shown != nil {
		_ = b.shown.Clear()
	}
}

// isTerminal says whether a stream of the process is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
