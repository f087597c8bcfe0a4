package lateness

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/internal/redisclient"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

// A node reports its late slots when it has used so many slots, or when the time is
// up; a node without slots reports nothing.
const (
	reportLeast = time.Second
	reportMax   = 3 * time.Second
	reportSlots = 50
	raiseEvery  = 2 * time.Second // between two tries to raise the lateness
)

// Reporter reports how late a node's slots were, and chooses the lateness when it is this
// node's turn. All fields of a new one but the unexported ones are to be set. Any goroutine
// may use Counter and Trips; the methods are for one.
type Reporter struct {
	Counter *Counter   // slots, by how late they were
	Trips   *TripNotes // round trips to the provider
	Limit   string     // its name, for a remedy
	Log     *slog.Logger

	Send      func(context.Context, Report) (Reply, error)
	Configure func(ctx context.Context, expected, to limit.Settings) (script.ChangeStatus, error) // replaces the settings, if those expected still are in force

	said    Counts    // totals that Redis knows
	saidAt  time.Time // last report
	triedAt time.Time // last try to raise the lateness
	failed  bool      // and that was logged
	narrow  bool      // the spread is too small for the way to the provider, and that was logged
}

// due returns the slots that are to be reported now, if any.
func (r *Reporter) due(totals Counts, now time.Time) (Counts, bool) {
	news := totals.Minus(r.said)
	passed := now.Sub(r.saidAt)
	return news, news.Total() > 0 && passed >= reportLeast && (news.Total() >= reportSlots || passed >= reportMax)
}

// Skip forgets what was counted: nobody is to choose a lateness by it.
func (r *Reporter) Skip(now time.Time) {
	r.said, r.saidAt = r.Counter.Totals(), now
	r.Trips.Take()
}

// Report reports how late this node's slots were under these settings, where that is due.
// Redis hands the fleet's counts to one node a second, which chooses the lateness. It
// returns whether this node has changed the settings.
func (r *Reporter) Report(ctx context.Context, known limit.Settings, now time.Time) (changed bool) {
	totals := r.Counter.Totals()
	news, due := r.due(totals, now)
	if !due {
		return false
	}
	r.saidAt = now
	cctx, cancel := context.WithTimeout(ctx, redisclient.Timeout)
	defer cancel()
	trips := r.Trips.Take()
	reply, err := r.Send(cctx, Report{Counts: news, Trips: trips})
	if err == nil || redis.HasErrorPrefix(err, "COUNTS") { // refused, as they would be again: too many for the cap of now
		r.said = totals
	}
	if err == nil {
		r.watchSpread(reply.Trips, known.Spread)
		changed, err = r.choose(cctx, known, reply)
	} else {
		r.Trips.Join(trips)
	}
	r.noteFailure(err)
	return changed
}

// watchSpread logs when the spread is too small for the way to the provider, and
// when it is enough again.
func (r *Reporter) watchSpread(trips RoundTrips, spread time.Duration) {
	fit, recommended := trips.Fit(spread)
	switch narrow := fit == SpreadTooSmall; {
	case fit == SpreadUnknown || narrow == r.narrow:
		return
	case narrow:
		r.Log.Warn("spread is too small: the way to the provider varies by more, so that calls may arrive closer together than the cap allows",
			"spread", spread, "varies_by", trips.Usual-trips.Low, "connections", trips.Connections,
			"remedy", fmt.Sprintf("limit set %s --spread %s", r.Limit, recommended))
	default:
		r.Log.Info("spread is enough for the way to the provider", "spread", spread, "varies_by", trips.Usual-trips.Low, "connections", trips.Connections)
	}
	r.narrow = !r.narrow
}

// Raise has the fleet take a lateness with which its slots can be used, for a node whose jobs wait
// because its slots are late by at least so much, see [ChooseAtStandstill]. It may be called at any rate. It
// returns whether this node has changed the settings.
func (r *Reporter) Raise(ctx context.Context, known limit.Settings, least time.Duration, now time.Time) (changed bool) {
	if now.Sub(r.triedAt) < raiseEvery {
		return false
	}
	r.triedAt = now
	cctx, cancel := context.WithTimeout(ctx, redisclient.Timeout)
	defer cancel()
	reply, err := r.Send(cctx, Report{})
	if err == nil {
		if choice, ok := ChooseAtStandstill(known.Contract, reply.Evidence, least); ok {
			changed, err = r.change(cctx, known, choice, reply)
		}
	}
	r.noteFailure(err)
	return changed
}

// choose changes the lateness, where the fleet's counts ask for it.
func (r *Reporter) choose(ctx context.Context, known limit.Settings, reply Reply) (changed bool, err error) {
	if !reply.Chooses {
		return false, nil
	}
	choice, ok := Choose(known.Contract, reply.Evidence)
	if !ok {
		return false, nil
	}
	return r.change(ctx, known, choice, reply)
}

// change puts a choice in force. If the settings were changed meanwhile, nothing happens:
// another node chooses within a second or two.
func (r *Reporter) change(ctx context.Context, known limit.Settings, choice Choice, reply Reply) (changed bool, err error) {
	to := known.WithLateness(choice.Lateness, WhyPrefix+choice.Why, limit.FromMicros(reply.Now))
	if err := to.Terms.Validate(); err != nil {
		return false, fmt.Errorf("choose the lateness: %w", err)
	}
	status, err := r.Configure(ctx, known, to)
	if err != nil || status != script.ChangeDone {
		return false, err
	}
	r.Log.Info("lateness was changed by the fleet", "from", known.Lateness, "to", to.Lateness, "why", to.Why)
	report := Report{Moved: MovedDown}
	if to.Lateness > known.Lateness {
		report.Moved, report.Patience = MovedUp, PatienceAfter(reply.Evidence.Patience, reply.Fell)
	}
	_, err = r.Send(ctx, report)
	return true, err
}

// noteFailure logs the first of several failures in a row.
func (r *Reporter) noteFailure(err error) {
	if err != nil && !r.failed {
		r.Log.Info("late slots could not be reported; the lateness stays as it is", "error", err)
	}
	r.failed = err != nil
}
