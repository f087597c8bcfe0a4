package cli

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// Bar shows how far a command is, and nothing where the output is no terminal. It
// counts up to size, -1 where the size can't be known. Callers ignore its errors: a bar
// that can't be drawn is no reason to stop.
func Bar(w io.Writer, about string, size int64, options ...progressbar.Option) *progressbar.ProgressBar {
	return progressbar.NewOptions64(size, append(options,
		progressbar.OptionSetVisibility(IsTerminal(w)),
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(about),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)...)
}
