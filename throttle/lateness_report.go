package throttle

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/lua"
)

// This file brings a node's counts of late slots to Redis, and changes the
// lateness of a limit whose guard is auto. Any node may do so: Redis hands the
// fleet's counts to one node a second, and a change takes effect only if the
// settings are still those by which it was chosen.

// A node reports when it has used so many slots, or when the time is up; a node
// without slots reports nothing.
const (
	reportLeast = time.Second
	reportMax   = 15 * time.Second
	reportSlots = 50
)

// latenessMove says what the node has just done to the lateness.
type latenessMove string

const (
	movedNot  latenessMove = ""
	movedUp   latenessMove = "rose"
	movedDown latenessMove = "fell"
)

// lateReport is one call of lateness.lua.
type lateReport struct {
	counts   lateCounts
	moved    latenessMove
	patience time.Duration // with movedUp
	trips    tripCount     // to the provider
}

// lateReply is its reply.
type lateReply struct {
	now      int64 // Redis's clock, µs since 1970
	mine     bool  // this node is to choose
	evidence lateEvidence
	fell     time.Duration // ago; negative: never
	trips    RoundTrips    // of the fleet, where this node is to choose
}

// reportFunc reports once.
type reportFunc func(context.Context, lateReport) (lateReply, error)

// configureFunc replaces the settings, if those expected still are in force.
type configureFunc func(ctx context.Context, expected, to Settings) (changeStatus, error)

// latenessScript runs lateness.lua on one limit.
type latenessScript struct {
	rdb    redis.Scripter
	keys   []string
	script *redis.Script
}

func newLatenessScript(rdb redis.Scripter, namespace, name string) latenessScript {
	keys := keysOf(namespace, name)
	return latenessScript{
		rdb: rdb, keys: []string{keys.limit, keys.history, keys.lateness}, script: redis.NewScript(lua.Lateness()),
	}
}

func (s latenessScript) run(ctx context.Context, r lateReport) (lateReply, error) {
	words := make([]string, len(r.counts))
	for i, n := range r.counts {
		words[i] = strconv.FormatInt(n, 10)
	}
	reply, err := s.script.Run(ctx, s.rdb, s.keys, strings.Join(words, " "), string(r.moved), r.patience.Microseconds(), r.trips.String()).Slice()
	if err != nil {
		return lateReply{}, fmt.Errorf("report late slots: %w", err)
	}
	return decodeLateReply(reply)
}

const lateNumbers = 4

func decodeLateReply(reply []any) (lateReply, error) {
	if len(reply) < lateNumbers || len(reply)%2 != 0 {
		return lateReply{}, fmt.Errorf("report late slots: %w: %d values", errReply, len(reply))
	}
	n, err := numbersOf(reply[:lateNumbers])
	if err != nil {
		return lateReply{}, fmt.Errorf("report late slots: %w", err)
	}
	r := lateReply{now: n[0], mine: len(reply) > lateNumbers, fell: -1}
	if n[3] > 0 {
		r.fell = duration(n[0] - n[3])
	}
	r.evidence = lateEvidence{since: duration(n[0] - n[1]), patience: max(duration(n[2]), leastPatience)}
	if r.mine {
		r.readFields(reply[lateNumbers:], n[0])
	}
	return r, nil
}

// How many of the counts are kept; lateness.lua knows the same numbers.
const (
	keptSeconds = 8
	keptTens    = 32
)

// readFields takes in the fields of the hash. What can't be read counts as nothing.
func (r *lateReply) readFields(fields []any, now int64) {
	second := now / time.Second.Microseconds()
	e := &r.evidence
	e.seconds, e.tens = make([]lateCounts, keptSeconds), make([]lateCounts, keptTens)
	var trips tripMinutes
	for i := 0; i+1 < len(fields); i += 2 {
		name, _ := fields[i].(string)
		text, _ := fields[i+1].(string)
		trips.read(name, text, now)
		number, counts, ok := readCounts(text)
		if !ok || name == "" {
			continue
		}
		switch name[0] {
		case 's':
			put(e.seconds, second-number, counts)
		case 't':
			put(e.tens, second/10-number, counts)
		}
	}
	r.trips = trips.sum()
}

func put(list []lateCounts, ago int64, c lateCounts) {
	if ago >= 0 && ago < int64(len(list)) {
		list[ago] = c
	}
}

// readCounts reads the number of a time, and the slots by class behind it.
func readCounts(text string) (number int64, c lateCounts, ok bool) {
	var n [1 + len(c)]int64
	if !readNumbers(text, n[:]) {
		return 0, c, false
	}
	return n[0], lateCounts(n[1:]), true
}

// readNumbers reads as many whole numbers as there are places for, none below 0. It
// returns whether that is what the text holds.
func readNumbers(text string, into []int64) bool {
	words := strings.Fields(text)
	if len(words) != len(into) {
		return false
	}
	for i, w := range words {
		n, err := strconv.ParseInt(w, 10, 64)
		if err != nil || n < 0 {
			return false
		}
		into[i] = n
	}
	return true
}

// lateReporter is what the reserving goroutine knows of its reports.
type lateReporter struct {
	said   lateCounts // totals that Redis has heard of
	saidAt time.Time  // last report
	failed bool       // and that was said
	narrow bool       // the spread is too small for the way to the provider, and that was said
}

// due returns the slots that are to be reported now, if any.
func (r *lateReporter) due(totals lateCounts, now time.Time) (lateCounts, bool) {
	news := totals.minus(r.said)
	passed := now.Sub(r.saidAt)
	return news, news.total() > 0 && passed >= reportLeast && (news.total() >= reportSlots || passed >= reportMax)
}

// choosesLateness reports whether the fleet chooses the lateness of these settings.
// Only slots on a timeline have their own time, and a timeline alone can take a
// new guard over without a pause.
func (s Settings) choosesLateness(a Algorithm) bool { return s.Auto && a.Ahead && !s.Paused }

// reportLate reports how late this node's slots were, where that is due, and
// chooses the lateness where it is this node's turn.
func (b *booker) reportLate(ctx context.Context) {
	now, totals := time.Now(), b.line.counter.totals()
	if b.opts.Scope == ScopeNode || !b.learned || b.failures > 0 || !b.known.choosesLateness(b.kind) {
		b.reporter.said, b.reporter.saidAt = totals, now
		b.trips.take()
		return
	}
	news, due := b.reporter.due(totals, now)
	if !due {
		return
	}
	b.reporter.saidAt = now
	cctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	trips := b.trips.take()
	reply, err := b.lateness(cctx, lateReport{counts: news, trips: trips})
	if err == nil {
		b.reporter.said = totals
		b.watchSpread(reply.trips)
		err = b.chooseLateness(cctx, reply)
	} else {
		b.trips.join(trips)
	}
	b.reporter.note(b.Limiter, err)
}

// note says once that reports fail.
func (r *lateReporter) note(l *Limiter, err error) {
	if err != nil && !r.failed {
		l.log.Info("late slots could not be reported; the lateness stays as it is", "error", err)
	}
	r.failed = err != nil
}

// watchSpread says when the spread is too small for the way to the provider, and
// when it is enough again.
func (b *booker) watchSpread(trips RoundTrips) {
	fit, recommended := trips.Fit(b.known.Spread)
	switch narrow := fit == SpreadTooSmall; {
	case fit == SpreadUnknown || narrow == b.reporter.narrow:
		return
	case narrow:
		b.log.Warn("the spread is too small: the way to the provider varies by more, so that calls may arrive closer together than the cap allows",
			"spread", b.known.Spread, "varies_by", trips.Usual-trips.Low, "connections", trips.Connections, "remedy", fmt.Sprintf("limit set %s --spread %s", b.opts.Name, recommended))
	default:
		b.log.Info("the spread is enough for the way to the provider", "spread", b.known.Spread, "varies_by", trips.Usual-trips.Low, "connections", trips.Connections)
	}
	b.reporter.narrow = !b.reporter.narrow
}

// chooseLateness changes the lateness, where the fleet's counts ask for it. If
// somebody changed the settings meanwhile, nothing is changed: another node
// chooses again within a second or two.
func (b *booker) chooseLateness(ctx context.Context, reply lateReply) error {
	if !reply.mine {
		return nil
	}
	choice, ok := chooseLateness(b.known.Contract, reply.evidence)
	if !ok {
		return nil
	}
	to := b.known.withLateness(choice, fromMicros(reply.now))
	if err := to.Terms.validate(); err != nil {
		return fmt.Errorf("choose the lateness: %w", err)
	}
	status, err := b.configure(ctx, b.known, to)
	if err != nil || status != changeDone {
		return err
	}
	b.log.Info("the fleet chose another lateness", "was", b.known.Lateness, "is", to.Lateness, "why", to.Why)
	r := lateReport{moved: movedDown}
	if to.Lateness > b.known.Lateness {
		r.moved, r.patience = movedUp, patienceAfter(reply.evidence.patience, reply.fell)
	}
	_, err = b.lateness(ctx, r)
	b.tell = true
	return err
}

// Dispatcher is who made a change that no operator made.
const Dispatcher = "dispatcher"

// withLateness are the settings with the lateness chosen, made at now. The terms
// to which an override returns get it as well, where their guard is auto.
func (s Settings) withLateness(c latenessChoice, now time.Time) Settings {
	to := s.edited()
	to.Contract = s.WithLateness(c.lateness)
	if !s.Until.IsZero() && s.Was.Auto {
		to.Was.Contract = s.Was.WithLateness(c.lateness)
	}
	to.By, to.Why, to.Revision, to.Changed = Dispatcher, c.why, s.Revision+1, now
	if !now.After(s.Changed) {
		to.Changed = s.Changed.Add(time.Microsecond)
	}
	return to
}
