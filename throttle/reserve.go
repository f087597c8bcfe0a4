package throttle

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"dispatcher/lua"
)

// ShareLease is how long a share of the reserve is lent, and so how long a node
// can live on it.
//
// The reserve is units of the cap that Redis never gives out. At most MaxNodes
// nodes hold a share of it, each lent by Redis for a lease, and use it only
// while Redis is away. Redis gives at most Cap − Reserve in any Window + Guard
// and each share at most its units, so the sum keeps the cap whatever the
// timing: who is away, and for how long, need not be known.
const ShareLease = 10 * time.Minute

const (
	shareAsk = ShareLease / 10 // so often a lease is asked for, or renewed
	// shareSlack is for a clock that runs slower than Redis's: what a node counts
	// as its lease ends before what Redis counts.
	shareSlack = ShareLease / 1000
	// awayAfter failures in a row Redis counts as away: one lost reply is none.
	awayAfter = 3
	// aheadOfCall is how far ahead a share's slots are given: the next call may
	// hang for so long, and then be put off.
	aheadOfCall = callTimeout + retryMost
)

// shareState is what a node says of its share when it asks.
type shareState int64

const (
	shareNone shareState = iota
	shareHeld
	shareLeft
)

// shareFunc asks Redis for a share once.
type shareFunc func(ctx context.Context, state shareState, left time.Duration) (lent, error)

// lent is share.lua's reply.
type lent struct {
	now, epoch int64
	granted    bool
}

// share is a node's part of the reserve, on its own monotonic clock. Times are
// arguments; it belongs to the booking goroutine.
type share struct {
	until  time.Time     // the end of the lease; zero: no share
	askAt  time.Time     // the next call
	next   time.Time     // no slot before
	end    time.Time     // use-by of the last slot
	period time.Duration // Window + Guard under which the last slot was given
	units  int64         // and the units in it
}

// ShareOfNode is what a node may use in any Window + Guard while it can't ask: 0 where
// there is no reserve.
func (c Contract) ShareOfNode() int64 {
	if c.MaxNodes == 0 {
		return 0
	}
	return c.Reserve / c.MaxNodes
}

// held reports whether the lease still runs at now: by the monotonic clock, and
// by the wall clock as well, for the first stands still in a machine that sleeps.
func (s *share) held(now time.Time) bool {
	return now.Before(s.until) && now.Round(0).Before(s.until.Round(0))
}

// state is what the node says of its share at now.
func (s *share) state(now time.Time) shareState {
	if s.held(now) {
		return shareHeld
	}
	return shareNone
}

// take takes an answer in that was asked for at asked: the lease counts from
// there, so that it ends here before Redis lends it to another. A new share is
// taken only if the reading that came with it can be trusted: a clock that
// jumped may have ended the leases of others.
func (s *share) take(asked time.Time, granted, trusted bool) {
	s.askAt = asked.Add(shareAsk)
	switch {
	case !granted:
		s.until = time.Time{}
	case trusted || s.held(asked):
		s.until = asked.Add(ShareLease - shareSlack)
	default:
		s.askAt = asked.Add(lookMost)
	}
}

// slots gives at most want slots that begin before now + ahead, on an exact
// schedule: any units + 1 of them span at least Window + Guard, and gaps only
// grow. After a change of the pace a whole period passes first, so that no span
// mixes the two.
func (s *share) slots(set Settings, now time.Time, ahead time.Duration, want int64) []Slot {
	units, period := set.ShareOfNode(), set.sharePeriod()
	if units == 0 || set.Paused || !s.held(now) {
		return nil
	}
	if s.units != 0 && (s.units != units || s.period != period) {
		s.next = later(s.next, s.end.Add(max(s.period, period)))
	}
	s.units, s.period = units, period
	spacing := (period + time.Duration(units) - 1) / time.Duration(units)
	var slots []Slot
	for s.next = later(s.next, now); int64(len(slots)) < want && s.next.Before(now.Add(ahead)); s.next = s.next.Add(spacing) {
		slot := Slot{NotBefore: s.next, NotAfter: s.next.Add(set.Lateness), lateness: set.Lateness}
		if slot.NotAfter.After(s.until) {
			break
		}
		slots, s.end = append(slots, slot), slot.NotAfter
	}
	return slots
}

// sharePeriod is the time in which a share's units may be used: that of an
// override or of what it returns to, whichever is longer, for a node that is cut
// off does not see it end.
func (s Settings) sharePeriod() time.Duration {
	period := s.Window + s.Guard
	if !s.Until.IsZero() {
		period = max(period, s.Was.Window+s.Was.Guard)
	}
	return period
}

// lending reports whether the node lives on its share: Redis has been known, is
// away, and has not refused the node.
func (b *booker) lending(now time.Time) bool {
	return b.failures >= awayAfter && b.learned && !b.refusing && !b.known.Paused &&
		b.known.ShareOfNode() > 0 && b.mine.held(now)
}

// lend puts slots of the share into the line, for as many as wait.
func (b *booker) lend(now time.Time) {
	if !b.lending(now) {
		return
	}
	st := b.line.state(now)
	b.noteLate(st.late)
	b.mine.next = later(b.mine.next, st.last) // the line is in the order of time
	slots := b.mine.slots(b.known, now, aheadOfCall, b.demand(st))
	b.lent = b.lent || len(slots) > 0
	b.shares.used.Add(float64(len(slots)))
	b.line.add(slots, now)
}

// unlend gives up what was lent and not taken when Redis is back, so that it
// does not stand in front of what Redis gives.
func (b *booker) unlend() {
	if b.lent {
		b.lent = false
		b.line.drop()
	}
}

// askShare asks for a share, or renews it, when that is due. Only a node that
// would see Redis's clock jump may ask.
func (b *booker) askShare(ctx context.Context) {
	asked := time.Now()
	if b.known.ShareOfNode() == 0 || b.failures > 0 || b.stepped || asked.Before(b.mine.askAt) ||
		b.settledAt.IsZero() || asked.Before(b.settledAt) {
		return
	}
	cctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	reply, err := b.share(cctx, b.mine.state(asked), 0)
	answered := time.Now()
	if err != nil {
		b.mine.askAt = answered.Add(lookMost)
		b.shares.calls.WithLabelValues("failed").Inc()
		return
	}
	trusted := reply.epoch == b.clock.epoch
	if trusted {
		b.stepped = b.clock.observe(reading{asked: asked, answered: answered, now: reply.now, epoch: reply.epoch})
		trusted = !b.stepped
	}
	had := b.mine.held(answered)
	b.mine.take(asked, reply.granted, trusted)
	b.noteShare(had, answered)
}

// noteShare says once that a share was got or lost.
func (b *booker) noteShare(had bool, now time.Time) {
	has := b.mine.held(now)
	b.shares.held.Set(float64(flag(has)))
	outcome := "refused"
	if has {
		outcome = "granted"
	}
	b.shares.calls.WithLabelValues(outcome).Inc()
	if had != has {
		b.log.Info("share of the reserve", "held", has, "units", b.known.ShareOfNode(), "lease", ShareLease)
	}
}

// leaveShare tells Redis at a graceful end that the share is free once its last
// slot is over; at any other end the lease runs out.
func (b *booker) leaveShare(ctx context.Context) {
	now := time.Now()
	if !b.mine.held(now) || b.failures > 0 {
		return
	}
	left := -2 * MaxWindow // never used
	if !b.mine.end.IsZero() {
		left = b.mine.end.Sub(now)
	}
	cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	if _, err := b.share(cctx, shareLeft, left); err != nil {
		b.log.Info("share of the reserve was not given up; its lease runs out", "error", err)
	}
}

// shareMetrics count what becomes of the reserve on this node.
type shareMetrics struct {
	held  prometheus.Gauge
	used  prometheus.Counter
	calls *prometheus.CounterVec
}

func newShareMetrics(reg prometheus.Registerer, limit string) *shareMetrics {
	labels := prometheus.Labels{"limit": limit}
	m := &shareMetrics{
		held: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "dispatcher_limit_share_held", Help: "1 while this node holds a share of the reserve.", ConstLabels: labels,
		}),
		used: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "dispatcher_limit_reserve_units_total", Help: "Units of its share that this node gave out while Redis was away.", ConstLabels: labels,
		}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dispatcher_limit_share_calls_total", Help: "Calls that ask for a share of the reserve.", ConstLabels: labels,
		}, []string{"outcome"}),
	}
	for _, outcome := range []string{"granted", "refused", "failed"} {
		m.calls.WithLabelValues(outcome)
	}
	if reg != nil {
		reg.MustRegister(m.held, m.used, m.calls)
	}
	return m
}

// shareScript runs share.lua on one limit, for one node.
type shareScript struct {
	rdb      redis.Scripter
	keys     limitKeys
	node     string
	identity Identity
	script   *redis.Script
}

func newShareScript(rdb redis.Scripter, namespace, name, node string, identity Identity) shareScript {
	return shareScript{
		rdb: rdb, keys: keysOf(namespace, name),
		node: node, identity: identity, script: redis.NewScript(lua.Share()),
	}
}

// run asks once; left counts where a share is given up.
func (s shareScript) run(ctx context.Context, state shareState, left time.Duration) (lent, error) {
	args := []any{s.node, string(s.identity), ShareLease.Microseconds(), int64(state), left.Microseconds()}
	n, err := s.script.Run(ctx, s.rdb, []string{s.keys.limit, s.keys.history, s.keys.shares}, args...).Int64Slice()
	if err != nil {
		return lent{}, fmt.Errorf("ask for a share: %w", err)
	}
	if len(n) != 3 {
		return lent{}, fmt.Errorf("ask for a share: %w: %d values", errReply, len(n))
	}
	return lent{now: n[0], epoch: n[1], granted: n[2] == 1}, nil
}
