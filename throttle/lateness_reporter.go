package throttle

import (
	"context"
	"fmt"
	"time"

	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/lateness"
	"dispatcher/throttle/limit"
)

// A node reports its late slots when it has used so many slots, or when the time is
// up; a node without slots reports nothing.
const (
	reportLeast = time.Second
	reportMax   = 15 * time.Second
	reportSlots = 50
)

// reportFunc reports late slots once.
type reportFunc func(context.Context, lateness.Report) (lateness.Reply, error)

// configureFunc replaces the settings, if those expected still are in force.
type configureFunc func(ctx context.Context, expected, to limit.Settings) (script.ChangeStatus, error)

// lateReporter is the reserving goroutine's record of its reports.
type lateReporter struct {
	said   lateness.Counts // totals that Redis knows
	saidAt time.Time       // last report
	failed bool            // and that was logged
	narrow bool            // the spread is too small for the way to the provider, and that was logged
}

// due returns the slots that are to be reported now, if any.
func (r *lateReporter) due(totals lateness.Counts, now time.Time) (lateness.Counts, bool) {
	news := totals.Minus(r.said)
	passed := now.Sub(r.saidAt)
	return news, news.Total() > 0 && passed >= reportLeast && (news.Total() >= reportSlots || passed >= reportMax)
}

// reportLate reports how late this node's slots were, where that is due. Redis hands
// the fleet's counts to one node a second, which chooses the lateness.
func (r *reserver) reportLate(ctx context.Context) {
	now, totals := time.Now(), r.counter.Totals()
	if r.opts.Limit.Scope == limit.ScopeNode || !r.learned || r.failures > 0 || !r.known.ChoosesLateness() {
		r.reporter.said, r.reporter.saidAt = totals, now
		r.trips.Take()
		return
	}
	news, due := r.reporter.due(totals, now)
	if !due {
		return
	}
	r.reporter.saidAt = now
	cctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	trips := r.trips.Take()
	reply, err := r.lateness(cctx, lateness.Report{Counts: news, Trips: trips})
	if err == nil {
		r.reporter.said = totals
		r.watchSpread(reply.Trips)
		err = r.chooseLateness(cctx, reply)
	} else {
		r.trips.Join(trips)
	}
	if err != nil && !r.reporter.failed {
		r.log.Info("late slots could not be reported; the lateness stays as it is", "error", err)
	}
	r.reporter.failed = err != nil
}

// watchSpread logs when the spread is too small for the way to the provider, and
// when it is enough again.
func (r *reserver) watchSpread(trips lateness.RoundTrips) {
	fit, recommended := trips.Fit(r.known.Spread)
	switch narrow := fit == lateness.SpreadTooSmall; {
	case fit == lateness.SpreadUnknown || narrow == r.reporter.narrow:
		return
	case narrow:
		r.log.Warn("spread is too small: the way to the provider varies by more, so that calls may arrive closer together than the cap allows",
			"spread", r.known.Spread, "varies_by", trips.Usual-trips.Low, "connections", trips.Connections,
			"remedy", fmt.Sprintf("limit set %s --spread %s", r.opts.Name, recommended))
	default:
		r.log.Info("spread is enough for the way to the provider", "spread", r.known.Spread, "varies_by", trips.Usual-trips.Low, "connections", trips.Connections)
	}
	r.reporter.narrow = !r.reporter.narrow
}

// chooseLateness changes the lateness, where the fleet's counts ask for it. If
// the settings were changed meanwhile, nothing happens: another node chooses within
// a second or two.
func (r *reserver) chooseLateness(ctx context.Context, reply lateness.Reply) error {
	if !reply.Chooses {
		return nil
	}
	choice, ok := lateness.Choose(r.known.Contract, reply.Evidence)
	if !ok {
		return nil
	}
	to := r.known.WithLateness(choice.Lateness, choice.Why, limit.FromMicros(reply.Now))
	if err := to.Terms.Validate(); err != nil {
		return fmt.Errorf("choose the lateness: %w", err)
	}
	status, err := r.configure(ctx, r.known, to)
	if err != nil || status != script.ChangeDone {
		return err
	}
	r.log.Info("lateness was changed by the fleet", "from", r.known.Lateness, "to", to.Lateness, "why", to.Why)
	report := lateness.Report{Moved: lateness.MovedDown}
	if to.Lateness > r.known.Lateness {
		report.Moved, report.Patience = lateness.MovedUp, lateness.PatienceAfter(reply.Evidence.Patience, reply.Fell)
	}
	_, err = r.lateness(ctx, report)
	r.pollNow = true
	return err
}
