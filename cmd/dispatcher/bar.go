package main

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// bar shows how far a command is. It shows nothing where the output is no terminal.
type bar struct{ shown *progressbar.ProgressBar }

// newBar makes a bar that counts up to size, -1 where the size can't be known.
func newBar(w io.Writer, about string, size int64, options ...progressbar.Option) bar {
	if !isTerminal(w) {
		return bar{}
	}
	return bar{progressbar.NewOptions64(size, append(options,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(about),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)...)}
}

// at notes the progress, and the size if it is known only now.
func (b bar) at(done, size int64) {
	if b.shown == nil {
		return
	}
	if size > 0 {
		b.shown.ChangeMax64(size)
	}
	_ = b.shown.Set64(done) // a bar that can't be drawn is no reason to stop
}

func (b bar) end() {
	if b.shown != nil {
		_ = b.shown.Clear()
	}
}
