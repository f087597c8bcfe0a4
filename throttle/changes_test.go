package throttle

import (
	goflag "flag"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/internal/containers"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// storm plays operators who change their minds all the time while the nodes
// work: changes, pauses and overrides, often several at once, beside delays,
// lost replies, lost settings and clock steps. It ends after so many changes.
func storm(t tester, rdb redis.UniversalClient, seed uint64, changes int) (f *fleet, over string) {
	roll := diceOf(seed)
	c := limit.Contract{
		Cap: []int64{1, 7, 50, 300}[roll(4)], Window: time.Second, Burst: 1,
		Guard: limit.DefaultGuard, Lateness: limit.DefaultLateness, Horizon: limit.DefaultHorizon,
	}
	f = newFleet(t, rdb, asWritten, roll, 1+int(roll(3)), c)
	f.poll()
	f.pass(600_000) // past the cooldown of the start
	for f.made.changes < changes {
		for range 1 + roll(9) {
			f.set(f.change(c))
			if roll(3) == 0 {
				f.work(c, 30_000)
			}
		}
		f.between(c)
	}
	return f, f.over(c.Window)
}

// between is what happens until the next change.
func (f *fleet) between(c limit.Contract) {
	roll := f.dice
	steps := 1 + roll(3)
	if roll(8) == 0 {
		steps = 30 // long enough for a window that is full, and for the end of an override
		f.set(control.Change{Values: parameters.Values{"paused": "false"}, By: "law"})
	}
	for range steps {
		f.work(c, []int64{2_000, 50_000, 200_000}[roll(3)])
	}
	switch roll(60) {
	case 0:
		f.poll() // each node looks more often than a change may take to act
		f.lose()
		f.poll()
	case 1:
		f.shift([]int64{-1, 1}[roll(2)] * (4_000 + roll([]int64{100_000, 5_000_000}[roll(2)])))
		f.poll()
	case 2, 3, 4, 5, 6:
		f.pass(1_000_000 + roll(10_000_000))
	}
}

// work lets a node reserve, and then up to so many microseconds pass.
func (f *fleet) work(c limit.Contract, gap int64) {
	roll := f.dice
	n := f.nodes[roll(int64(len(f.nodes)))]
	delay := []int64{0, 300, 20_000}[roll(3)]
	f.reserve(n, 1+roll(max(1, c.Cap/4)), roll(delay+1), roll(min(delay, 2_000)+1), roll(8) == 0)
	f.pass(roll(gap))
}

var allChanges = goflag.Int("changes", 20_000, "how many changes TestChangesReal makes")

// Whatever operators do, and however often, no window holds more than what was
// in force.
func TestChangesReal(t *testing.T) {
	t.Parallel()
	server := containers.Redis(t)
	const each, groups = 500, 2
	for g := range groups { // most of the time goes into the way to the server
		t.Run(fmt.Sprint("operators ", g+1), func(t *testing.T) {
			t.Parallel()
			rdb := redis.NewClient(&redis.Options{Addr: server.Addr, DB: g, ReadTimeout: time.Minute, WriteTimeout: time.Minute, DialTimeout: time.Minute})
			t.Cleanup(func() { _ = rdb.Close() })
			changesLaw(t, rdb, uint64(1+1000*g), *allChanges/groups, each)
		})
	}
}

// The same, as far as it goes without a server.
func TestChangesEmbedded(t *testing.T) {
	oneGoroutine(t)
	t.Parallel()
	changesLaw(t, embeddedRedis(t), 1, 1_200, 60)
}

func changesLaw(t *testing.T, rdb redis.UniversalClient, seed uint64, all, each int) {
	t.Helper()
	var sum made
	calls, begin := 0, time.Now()
	for ; sum.changes < all; seed++ {
		f, over := storm(t, rdb, seed, each)
		if over != "" {
			t.Fatalf("storm %d: %s", seed, over)
		}
		sum.changes += f.made.changes
		sum.pauses += f.made.pauses
		sum.overrides += f.made.overrides
		sum.ends += f.made.ends
		calls += len(f.calls)
	}
	t.Logf("%d changes, of which %d to a pause and %d overrides; %d overrides ended by themselves; %d calls; no window over what was in force; %v",
		sum.changes, sum.pauses, sum.overrides, sum.ends, calls, time.Since(begin).Round(time.Millisecond))
	if sum.ends == 0 || calls < all/2 {
		t.Errorf("got %d ends of overrides and %d calls; so few prove nothing", sum.ends, calls)
	}
}
