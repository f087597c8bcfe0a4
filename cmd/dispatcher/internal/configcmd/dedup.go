package configcmd

import (
	"fmt"
	"io"

	"dispatcher/configs"
	"dispatcher/internal/timetext"
)

// printDedup prints how long the dedup store remembers a job, and what happens to a
// job that may have been done.
func printDedup(w io.Writer, cfg configs.Config) {
	if !cfg.Dedup.Enabled {
		return
	}
	_, _ = fmt.Fprintf(w, "dedup store\n")
	_, _ = fmt.Fprintf(w, "  remembers\t%s\ta job that was sent is not called again in this time\n", timetext.Short(cfg.Dedup.Window))
	_, _ = fmt.Fprintf(w, "  hold\t%s\tbefore a job whose node died in its call is decided\n",
		timetext.Short(cfg.Dedup.Hold(cfg.Sender.HTTP.Timeout)))
	_, _ = fmt.Fprintf(w, "  unknown\t%s\t%s\n", cfg.Sender.OnUnknown, map[string]string{
		configs.UnknownRetry: "such a job is called again",
		configs.UnknownPark:  "such a job goes to <topic>.parked and is not called again",
		configs.UnknownDead:  "such a job goes to <topic>.dlq and is not called again",
	}[cfg.Sender.OnUnknown])
}
