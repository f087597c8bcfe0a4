package throttle

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"dispatcher/throttle/control"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// rollout plays nodes that come and go with files of their own, operators who
// change the algorithm, and a limit's key that is deleted, in simulated time.
// Every file and change states the same cap and window.
type rollout struct {
	redisTime

	t      tester
	rdb    redis.UniversalClient
	edit   func(script string) string // a mutation
	roll   dice
	nodes  []*rolloutNode
	named  int
	grants []int64
}

type rolloutNode struct {
	Scripts script.Scripts
	known   limit.Settings
	seq     int64
	epoch   int64
	since   int64
	read    int64
	learned bool
}

const rolloutCap = 20

// files are what nodes may be configured with: each strict algorithm, with the bursts
// that it takes.
func files() []limit.Settings {
	var all []limit.Settings
	for _, a := range limit.Algorithms() {
		for _, burst := range []int64{1, 14, rolloutCap} {
			c := contract(rolloutCap)
			c.Burst = burst
			if a.Strict && errorsIn(a, c) == nil {
				all = append(all, seededBy(a.Name, c))
			}
		}
	}
	return all
}

func newRollout(t tester, mini *miniredis.Miniredis, rdb redis.UniversalClient, roll dice, edit func(string) string) *rollout {
	t.Helper()
	mini.FlushAll()
	r := &rollout{redisTime: redisTime{mini: mini, now: 1_700_000_000_000_000}, t: t, rdb: rdb, edit: edit, roll: roll}
	mini.SetTime(time.UnixMicro(r.now))
	for range 1 + roll(3) {
		r.nodes = append(r.nodes, r.fresh())
	}
	for _, n := range r.nodes {
		r.poll(n)
	}
	return r
}

// fresh is a node that has just started with one of the files.
func (r *rollout) fresh() *rolloutNode {
	r.named++
	all := files()
	n := &rolloutNode{
		Scripts: script.NewScripts(r.rdb, "rollout", "provider", fmt.Sprint("node", r.named)),
		known:   all[r.roll(int64(len(all)))], seq: 1,
	}
	for name := range n.Scripts.Reserving {
		n.Scripts.Reserving[name] = redis.NewScript(r.edit(scriptOf(name)))
	}
	return n
}

func (r *rollout) ask(n *rolloutNode, want int64) script.Reservation {
	b, err := n.Scripts.Reserve(contextOf(r.t), script.Ask{
		Want: want, Seq: n.seq, Epoch: n.epoch, Since: n.since, Read: n.read, Identity: string(IdentityNone), Nearest: nearest, Learned: n.learned, Known: n.known,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	if n.epoch != b.Epoch {
		n.since = b.Now
	}
	n.known, n.learned, n.epoch, n.read = b.Settings, true, b.Epoch, b.Now
	return b
}

func (r *rollout) poll(n *rolloutNode) { r.ask(n, 0) }

func (r *rollout) reserve(n *rolloutNode, want int64) {
	n.seq++
	b := r.ask(n, want)
	for j := range b.Schedule.Given {
		r.grants = append(r.grants, b.Schedule.At(j))
	}
}

func (r *rollout) happen() {
	n := r.nodes[r.roll(int64(len(r.nodes)))]
	switch p := r.roll(100); {
	case p < 60:
		r.reserve(n, 1+r.roll(rolloutCap))
	case p < 88:
		r.pass(1 + r.roll([]int64{10_000, 100_000, 700_000, 3_000_000}[r.roll(4)]))
	case p < 93: // a node is replaced, or all of them at once
		for i := range r.nodes {
			if r.nodes[i] == n || r.roll(3) == 0 {
				r.nodes[i] = r.fresh()
				r.poll(r.nodes[i])
			}
		}
	case p < 97:
		r.change()
	default:
		if err := r.rdb.Del(contextOf(r.t), n.Scripts.Keys.Limit).Err(); err != nil {
			r.t.Fatal(err)
		}
		for i := range r.nodes {
			if p == 99 { // and nobody is left that knew it
				r.nodes[i] = r.fresh()
			}
		}
		for _, n := range r.nodes { // all nodes notice the key's loss
			r.poll(n)
		}
	}
}

// change is an operator who sets another algorithm.
func (r *rollout) change() {
	operator, err := control.NewControl(r.rdb, "rollout", "provider")
	if err != nil {
		r.t.Fatal(err)
	}
	all := files()
	to := all[r.roll(int64(len(all)))]
	if _, err := operator.Set(contextOf(r.t), control.Change{Values: parameters.Values{"algorithm": to.Algorithm, "burst": fmt.Sprint(to.Burst)}, By: "law", Force: true}); err != nil && !errors.Is(err, control.ErrUnchanged) {
		r.t.Fatal(err)
	}
	for _, n := range r.nodes {
		r.poll(n)
	}
}

// over is the first window that holds more than the cap.
func (r *rollout) over() string {
	length := limit.Windowed(contract(rolloutCap))
	if most := fullest(r.grants, length); most > rolloutCap {
		return fmt.Sprintf("%d units in one window of %v, and the cap is %d", most, length, rolloutCap)
	}
	return ""
}

// Whatever the files say, in any order of restarts, changes of the algorithm and
// losses of the key: no window holds more than the cap.
func TestAnotherAlgorithmNeverPassesTheCap(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	mini := miniredis.RunT(t)
	rdb := patient(t, mini.Addr())
	given, runs := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		r := newRollout(rt, mini, rdb, diceOf(rapid.Uint64().Draw(rt, "seed")), func(s string) string { return s })
		for range 150 {
			r.happen()
		}
		if over := r.over(); over != "" {
			rt.Fatal(over)
		}
		given, runs = given+len(r.grants), runs+1
	})
	if given < 20*runs {
		t.Errorf("got %d units in %d runs; so few prove nothing", given, runs)
	}
}

// The law has teeth.
func TestAnotherAlgorithmLawBreaksWithout(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	for _, m := range []struct{ rule, from, to string }{
		{"what is owed under the algorithm before", "and (why > STATE_LOST or old.algorithm ~= set.algorithm) then", "and why > STATE_LOST and why < OTHER_ALGORITHM then"},
		{"the window that passes between algorithms", "+ span(old, set)\n", "\n"},
		{"the window that passes where a limit's key was deleted", "redis.call('EXISTS', nodes, history) > 0", "false"},
		{"one algorithm for all nodes", "if set and not newer and set.algorithm ~= ALGORITHM then return nothing(0) end", ""},
	} {
		t.Run(m.rule, func(t *testing.T) {
			t.Parallel()
			without(t, scriptOf(limit.DefaultAlgorithm), m.from, m.to) // the rule is in each algorithm's script
			mini := miniredis.RunT(t)
			rdb := patient(t, mini.Addr())
			for seed := range uint64(150) {
				r := newRollout(t, mini, rdb, diceOf(seed), func(s string) string { return strings.Replace(s, m.from, m.to, 1) })
				for range 150 {
					r.happen()
				}
				if over := r.over(); over != "" {
					t.Logf("history %d: %s", seed, over)
					return
				}
			}
			t.Error("no window over the cap was found")
		})
	}
}

// A key that is lost again during the cooldown does not end it sooner: the nodes
// remember until when it lasts.
func TestAKeyLostTwiceKeepsItsCooldown(t *testing.T) {
	t.Parallel()
	mini := miniredis.RunT(t)
	r := newRollout(t, mini, patient(t, mini.Addr()), diceOf(1), func(s string) string { return s })
	lose := func() {
		if err := r.rdb.Del(t.Context(), script.KeysOf("rollout", "provider").Limit).Err(); err != nil {
			t.Fatal(err)
		}
	}
	r.nodes = []*rolloutNode{r.fresh()}
	lose()
	r.nodes[0].known = seededBy(limit.SlidingWindowLog, contract(rolloutCap)) // it gives all of the cap at once
	r.poll(r.nodes[0])
	r.pass(3_000_000)
	r.reserve(r.nodes[0], rolloutCap)
	lose()
	r.nodes[0] = r.fresh()
	r.nodes[0].known = seededBy(limit.TokenBucket, contract(rolloutCap))
	r.poll(r.nodes[0])
	lose()
	for range 200 {
		r.reserve(r.nodes[0], rolloutCap)
		r.pass(10_000)
	}
	if over := r.over(); over != "" {
		t.Error(over)
	}
	if len(r.grants) < rolloutCap+5 {
		t.Errorf("got %d units; so few prove nothing", len(r.grants))
	}
}
