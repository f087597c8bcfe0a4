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
	"dispatcher/lua"
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
	id      string // of the node, unique per start
	script  *redis.Script
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
	return &Publisher{opts: o, id: fmt.Sprintf("%s-%016x", o.Node, rand.Uint64()), script: redis.NewScript(lua.Publish()), soon: make(chan struct{}, 1)}
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

// said is what one call of the script says.
type said struct {
	text   []byte // figures; empty: the node ends
	second int64  // of the Unix time, that the rest is of; -1: none
	counts
	cap, effective float64
}

func (p *Publisher) say(ctx context.Context, now time.Time, s said) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	keys := []string{figuresKey(p.opts.Namespace), secondsKey(p.opts.Namespace, max(s.second, 0)), rules.Key(p.opts.Namespace)}
	starts := 0
	if !p.clock.known() {
		starts = 1
	}
	asked := time.Now()
	reply, err := p.script.Run(ctx, p.opts.Redis, keys, p.id, s.text, inBucket(s.second), s.calls, s.refused, perSecond(s.cap), perSecond(s.effective),
		kept.Milliseconds(), goneAfter.Microseconds(), starts, s.units).Int64Slice()
	if err == nil && len(reply) != 2 { //nolint:mnd // as the script says
		err = fmt.Errorf("a reply of %d parts", len(reply))
	}
	if err != nil {
		p.failed(err)
		return
	}
	p.failing = false
	p.clock = clock{redis: time.UnixMicro(reply[0]), local: now.Add(time.Since(asked) / 2)}
	p.opts.Rules(reply[1])
}

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

// inBucket is the place of a second in its half minute; -1: there is none.
func inBucket(second int64) int64 {
	if second < 0 {
		return -1
	}
	return second % int64(bucket.Seconds())
}

func perSecond(units float64) string { return strconv.FormatFloat(units, 'g', 6, 64) }
