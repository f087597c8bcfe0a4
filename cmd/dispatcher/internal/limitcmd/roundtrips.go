package limitcmd

import (
	"fmt"
	"io"
	"time"

	"dispatcher/internal/limits"
	"dispatcher/internal/timetext"
	"dispatcher/throttle/lateness"
	"dispatcher/throttle/limit"
)

// printTrips prints whether the spread fits.
func printTrips(w io.Writer, r limits.RoundTrips, now limit.Settings) {
	if r.Connections == 0 {
		_, _ = fmt.Fprintln(w, "  round trips\tunknown\tno node has reported a new connection to the provider in the last 10 minutes")
		return
	}
	seconds := func(s float64) string {
		return time.Duration(s * float64(time.Second)).Round(10 * time.Microsecond).String()
	}
	fits := "not enough yet to say whether the spread fits"
	switch r.Fit {
	case lateness.SpreadTooSmall:
		fits = fmt.Sprintf("WARNING: the spread of %s is too small; --spread %s is enough", timetext.Short(now.Spread), seconds(r.SpreadS))
	case lateness.SpreadTooLarge:
		fits = fmt.Sprintf("the spread of %s is more than needed; with --spread %s the usable share is %.3f", timetext.Short(now.Spread), seconds(r.SpreadS), r.Share)
	case lateness.SpreadFits:
		fits = fmt.Sprintf("the spread of %s fits", timetext.Short(now.Spread))
	case lateness.SpreadUnknown:
	}
	_, _ = fmt.Fprintf(w, "  round trips\t%s to %s\tof %d connections to the provider in 10 minutes: %s\n", seconds(r.LowS), seconds(r.HighS), r.Connections, fits)
}
