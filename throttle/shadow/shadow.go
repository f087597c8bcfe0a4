package shadow

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/internal/wait"
	"dispatcher/throttle"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

const (
	asked  = 20                     // units, in all
	units  = 5                      // the cap of the limit
	window = 100 * time.Millisecond // of the limit, but with redis_cell, which counts in seconds
	life   = time.Minute            // of the keys
	most   = time.Second            // between two calls
	least  = 5 * time.Millisecond
)

// Options says where to prove it. All are required.
type Options struct {
	Redis     redis.UniversalClient
	Namespace string
	Algorithm string // of the scripts, as limits.0 names it; empty: the default one
	Identity  throttle.Identity
}

// Proof is what the scripts granted.
type Proof struct {
	Granted int           // units
	Most    int64         // units in one window
	Bound   int64         // that a window may hold
	Window  time.Duration // of the limit
	Took    time.Duration
}

// Err says what is wrong; nil: the limiter limits.
func (p Proof) Err() error {
	switch {
	case p.Granted == 0:
		return fmt.Errorf("the limiter granted nothing in %s", p.Took.Round(time.Millisecond))
	case p.Most > p.Bound:
		return fmt.Errorf("the limiter granted %d units in a window of %s, and %d are the most", p.Most, p.Window, p.Bound)
	}
	return nil
}

// Prove asks for units until the limit has been full for two windows, or ctx ends. It takes about a second: a new
// limit grants nothing at first. The error is Redis's, or that of ctx if nothing was granted.
func Prove(ctx context.Context, o Options) (Proof, error) {
	kind, err := limit.AlgorithmNamed(o.Algorithm)
	if err != nil {
		return Proof{}, err
	}
	terms := limit.Terms{Algorithm: kind.Name, Contract: limit.Contract{
		Cap: units, Window: window, Burst: 1, Guard: window / limit.MinWindowGuards, Lateness: limit.DefaultLateness, Horizon: limit.DefaultHorizon,
	}}
	if kind.Name == limit.RedisCell {
		terms.Window = time.Second
	}
	name := rand.Text()
	scripts := script.NewScripts(mortal{o.Redis}, o.Namespace, name, "check")
	scripts.Keys = script.ShadowKeys(o.Namespace, name)
	began := time.Now()
	at, err := ask(ctx, scripts, script.Ask{Identity: string(o.Identity), Refuses: true, Known: limit.Spec{Terms: terms}.Settings()})
	forget(ctx, o.Redis, scripts)
	return Proof{
		Granted: len(at), Most: fullest(at, terms.Window.Microseconds()), Bound: kind.Worst(terms.Contract),
		Window: terms.Window, Took: time.Since(began),
	}, err
}

// ask collects the times of slots, on Redis's clock in µs.
func ask(ctx context.Context, scripts script.Scripts, a script.Ask) (at []int64, err error) {
	for len(at) < asked {
		a.Want, a.Seq, a.Call = int64(asked-len(at)), a.Seq+1, a.Call+1
		r, err := scripts.Reserve(ctx, a)
		if err != nil {
			return at, err
		}
		if r.Epoch != a.Epoch {
			a.Epoch, a.Since = r.Epoch, r.Now
		}
		a.Read, a.Learned = r.Now, true
		for j := range r.Schedule.Given {
			at = append(at, r.Schedule.At(j))
		}
		if len(at) > 0 && r.Now > slices.Min(at)+2*a.Known.Window.Microseconds() {
			break
		}
		if !wait.For(ctx, min(most, max(least, r.Wait))) {
			if len(at) > 0 {
				break
			}
			return nil, context.Cause(ctx)
		}
	}
	return at, nil
}

// fullest is how many of the times lie in one window, at most.
func fullest(at []int64, window int64) (most int64) {
	slices.Sort(at)
	first := 0
	for i, t := range at {
		for t-at[first] >= window {
			first++
		}
		most = max(most, int64(i-first+1))
	}
	return most
}

// forget deletes the keys. If it can't, they end by themselves.
func forget(ctx context.Context, rdb redis.UniversalClient, s script.Scripts) {
	k := s.Keys
	_ = rdb.Del(context.WithoutCancel(ctx), k.Limit, k.History, k.State, k.Reserved(s.Node), k.Nodes, k.Calls).Err()
}

// mortal runs scripts, and gives a time to live to the keys that they leave. Both leave in one write.
type mortal struct{ redis.UniversalClient }

// Eval runs a script by its text.
func (m mortal) Eval(ctx context.Context, text string, keys []string, args ...any) *redis.Cmd {
	return m.run(ctx, keys, func(p redis.Pipeliner) *redis.Cmd { return p.Eval(ctx, text, keys, args...) })
}

// EvalSha runs a script that Redis knows.
func (m mortal) EvalSha(ctx context.Context, sum string, keys []string, args ...any) *redis.Cmd {
	return m.run(ctx, keys, func(p redis.Pipeliner) *redis.Cmd { return p.EvalSha(ctx, sum, keys, args...) })
}

func (m mortal) run(ctx context.Context, keys []string, script func(redis.Pipeliner) *redis.Cmd) *redis.Cmd {
	p := m.Pipeline()
	cmd := script(p)
	for _, key := range keys {
		p.PExpire(ctx, key, life)
	}
	_, _ = p.Exec(ctx) // the script's own error is in cmd
	return cmd
}
