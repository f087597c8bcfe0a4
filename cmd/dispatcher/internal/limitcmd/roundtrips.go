package limitcmd

import (
	"context"
	"fmt"
	"io"
	"time"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/throttle/lateness"
	"dispatcher/throttle/limit"
)

// roundTrips are measured to the provider. The spread must cover how much they vary.
type roundTrips struct {
	Connections int64              `json:"connections"` // opened over the last ten minutes
	LowS        float64            `json:"low_s"`
	HighS       float64            `json:"high_s"`
	Fit         lateness.SpreadFit `json:"fit"`
	SpreadS     float64            `json:"recommended_spread_s,omitempty"`
	Share       float64            `json:"share_with_it,omitempty"`
}

func (c limitConn) roundTrips(ctx context.Context, now limit.Settings, clock time.Time) (*roundTrips, error) {
	trips, err := c.control.RoundTrips(ctx, clock)
	if err != nil {
		return nil, err
	}
	fit, spread := trips.Fit(now.Spread)
	r := roundTrips{Connections: trips.Connections, LowS: trips.Low.Seconds(), HighS: trips.High.Seconds(), Fit: fit}
	if spread > 0 {
		then := now.Terms
		then.Spread = spread
		then.Contract = then.WithLateness(then.Lateness) // as limit set does
		r.SpreadS, r.Share = spread.Seconds(), then.UsableShare()
	}
	return &r, nil
}

// row prints whether the spread fits.
func (r roundTrips) row(w io.Writer, now limit.Settings) {
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
		fits = fmt.Sprintf("WARNING: the spread of %s is too small; --spread %s is enough", cli.Short(now.Spread), seconds(r.SpreadS))
	case lateness.SpreadTooLarge:
		fits = fmt.Sprintf("the spread of %s is more than needed; with --spread %s the usable share is %.3f", cli.Short(now.Spread), seconds(r.SpreadS), r.Share)
	case lateness.SpreadFits:
		fits = fmt.Sprintf("the spread of %s fits", cli.Short(now.Spread))
	case lateness.SpreadUnknown:
	}
	_, _ = fmt.Fprintf(w, "  round trips\t%s to %s\tof %d connections to the provider in 10 minutes: %s\n", seconds(r.LowS), seconds(r.HighS), r.Connections, fits)
}
