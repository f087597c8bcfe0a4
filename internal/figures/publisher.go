package figures

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/internal/rules"
	"dispatcher/throttle/control"
)

const (
	callTimeout = time.Second
	goneAfter   = time.Minute
	kept        = time.Hour + bucket // of the seconds
	bucket      = 30 * time.Second   // that one key holds
)

// Options of a [Publisher]; all are required.
type Options struct {
	Redis     redis.UniversalClient
	Namespace string
	Node      string // its name
	Take      func(context.Context) Figures
	Rules     func(revision int64) // is called with that of the rules in force
	Logger    *slog.Logger
}

// Publisher publishes the figures of one node. Make it with [New]; it can be run once.
type Publisher struct {
	opts    Options
	id      string // of the node: its name, "-" and 16 digits, unique per start
	clock   clock
	soon    chan struct{}
	before  counts // at the last second's end
	rate    counts // in a second, smoothed
	failing bool   // the last call failed, and that was logged
}

// counts are those of which differences are published.
type counts struct{ calls, refused, units float64 }

// clock tells Redis's time from its last answer on.
type clock struct{ redis, local time.Time }

func (c clock) known() bool                  { return !c.redis.IsZero() }
func (c clock) at(local time.Time) time.Time { return c.redis.Add(local.Sub(c.local)) }

// New makes a publisher. It asks nothing yet.
func New(o Options) *Publisher {
	return &Publisher{opts: o, id: fmt.Sprintf("%s-%016x", o.Node, rand.Uint64()), soon: make(chan struct{}, 1)}
}

// Run publishes once a second until ctx ends, and removes what the node said. It returns nil.
func (p *Publisher) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			p.say(context.WithoutCancel(ctx), time.Now(), said{second: -1})
			return nil
		case <-p.soon:
			p.publishBetween(ctx, time.Now())
		case <-timer.C:
			p.publish(ctx, time.Now())
		}
		timer.Reset(p.rest(time.Now()))
	}
}

// Now has the node say what it knows at once, and not only at the end of the second.
func (p *Publisher) Now() {
	select {
	case p.soon <- struct{}{}:
	default:
	}
}

// publishBetween says what the node knows, and leaves the calls for the end of the second.
func (p *Publisher) publishBetween(ctx context.Context, now time.Time) {
	f := p.opts.Take(ctx)
	f.CallsPerS, f.UnitsPerS = p.rate.calls, p.rate.units
	text, err := f.text()
	if err != nil {
		p.failed(err)
		return
	}
	p.say(ctx, now, said{text: text, second: -1})
}

// rest is the time to the end of this second of Redis's clock.
func (p *Publisher) rest(now time.Time) time.Duration {
	if !p.clock.known() {
		return time.Second
	}
	at := p.clock.at(now)
	return at.Truncate(time.Second).Add(time.Second).Sub(at)
}

// publish says what the node knows now. The calls since the last time are those of the second that is just over. They count as
// published also where Redis did not answer: it may have counted them.
func (p *Publisher) publish(ctx context.Context, now time.Time) {
	f := p.opts.Take(ctx)
	s := said{second: -1, cap: f.Cap, effective: f.Eff}
	if p.clock.known() {
		s.second = p.clock.at(now).Add(-time.Second / 2).Unix()
		calls, refused := f.callsOf()
		s.counts = counts{calls - p.before.calls, refused - p.before.refused, f.Units - p.before.units}
		p.before = counts{calls, refused, f.Units}
	}
	const weight = 0.2 // of the last second
	p.rate.calls += weight * (s.calls - p.rate.calls)
	p.rate.units += weight * (s.units - p.rate.units)
	f.CallsPerS, f.UnitsPerS = p.rate.calls, p.rate.units
	var err error
	if s.text, err = f.text(); err != nil {
		p.failed(err)
		return
	}
	p.say(ctx, now, s)
}

// said is what one call says.
type said struct {
	text   []byte // figures; empty: the node ends
	second int64  // of the Unix time, that the rest is of; -1: none
	counts
	cap, effective float64
}

// say says it in one round trip. A script would cost Redis several times as much, and nothing here depends on what another node said.
func (p *Publisher) say(ctx context.Context, now time.Time, s said) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	// Of a Cluster, another master has a clock of its own.
	server, err := control.Holder(ctx, p.opts.Redis, figuresKey(p.opts.Namespace))
	if err == nil && !p.clock.known() {
		err = p.start(ctx, server, now)
	}
	if err != nil {
		p.failed(err)
		return
	}
	pipe := server.Pipeline()
	clock := pipe.Time(ctx)
	inForce := pipe.HGet(ctx, rules.Key(p.opts.Namespace), "revision")
	p.addText(ctx, pipe, p.clock.at(now), s.text)
	if s.second >= 0 {
		p.addCounts(ctx, pipe, s)
	}
	asked := time.Now()
	replies, _ := pipe.Exec(ctx)
	for _, reply := range replies {
		if err := reply.Err(); err != nil && reply != redis.Cmder(inForce) {
			p.failed(err)
			return
		}
	}
	p.failing = false
	p.clock = readAt(clock.Val(), now, asked)
	revision, _ := inForce.Int64() // 0: there are no rules, or another's key is in their place
	p.opts.Rules(revision)
}

// readAt is the clock after a reading that was asked for then, at now of this host.
func readAt(reading, now, asked time.Time) clock {
	return clock{redis: reading, local: now.Add(time.Since(asked) / 2)}
}

// addText has Redis keep what the node said of itself at a time of Redis's clock, or forget it.
func (p *Publisher) addText(ctx context.Context, pipe redis.Pipeliner, at time.Time, text []byte) {
	key := figuresKey(p.opts.Namespace)
	if len(text) == 0 {
		pipe.HDel(ctx, key, p.id)
		return
	}
	pipe.HSet(ctx, key, p.id, encode(at, text))
	pipe.PExpire(ctx, key, goneAfter)
}

// addCounts adds the node's calls of a second to those of the other nodes.
func (p *Publisher) addCounts(ctx context.Context, pipe redis.Pipeliner, s said) {
	key, place := secondsKey(p.opts.Namespace, s.second), placeOf(s.second)
	for field, count := range map[string]float64{callsField: s.calls, refusedField: s.refused, unitsField: s.units} {
		if count != 0 {
			pipe.HIncrBy(ctx, key, place+field, int64(count))
		}
	}
	pipe.HSet(ctx, key, place+capField, perSecond(s.cap), place+effectiveField, perSecond(s.effective))
	pipe.PExpire(ctx, key, kept)
}

// start reads Redis's clock and removes what nodes said that are gone. One that was killed does not say that it ends, so what another
// process of this name said is removed too. Where that one still works, it says something again within a second.
func (p *Publisher) start(ctx context.Context, server redis.Cmdable, now time.Time) error {
	asked := time.Now()
	reading, err := server.Time(ctx).Result()
	if err != nil {
		return err
	}
	p.clock = readAt(reading, now, asked)
	key := figuresKey(p.opts.Namespace)
	all, err := server.HGetAll(ctx, key).Result()
	if err != nil {
		return err
	}
	var gone []string
	for id, value := range all {
		if n, ok := decode(id, value, reading); !ok || nameOf(id) == p.opts.Node || reading.Sub(n.said).Abs() > goneAfter {
			gone = append(gone, id)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return server.HDel(ctx, key, gone...).Err()
}

// nameOf is the name of the node with that id.
func nameOf(id string) string { return id[:max(0, len(id)-len("-0123456789abcdef"))] }

// failed logs once that nothing is published.
func (p *Publisher) failed(err error) {
	if p.failing {
		return
	}
	p.failing = true
	p.opts.Logger.Warn("the node can't publish its figures, trying again; the page and dispatcher status show old ones meanwhile", "error", err)
}

func figuresKey(namespace string) string { return "dispatcher:{" + namespace + "}:figures" }

// secondsKey holds the half minute with this second of the Unix time.
func secondsKey(namespace string, second int64) string {
	return "dispatcher:{" + namespace + "}:seconds:" + strconv.FormatInt(second/int64(bucket.Seconds()), 10)
}

// placeOf begins the fields of a second: its place in the half minute.
func placeOf(second int64) string { return strconv.FormatInt(second%int64(bucket.Seconds()), 10) }

// The fields of a second: its place in the half minute, and one of these.
const (
	callsField     = "c" // that reached the provider
	refusedField   = "r" // of the calls, those that the provider refused for their rate
	unitsField     = "u" // that the calls counted
	capField       = "k" // of the first limit, in units a second
	effectiveField = "e" // what the provider's answers left of it
)

func perSecond(units float64) string { return strconv.FormatFloat(units, 'g', 6, 64) }
