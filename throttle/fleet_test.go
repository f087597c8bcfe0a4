package throttle

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"dispatcher/internal/fault"
	"dispatcher/throttle/control"
	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

// fleet simulates nodes, a provider and an operator around the real script on
// a Redis, in simulated time. Time passes, and Redis's clock steps, by editing
// the times that Redis has stored, so it works on a real server as well, whose
// own time is taken out again: a machine that loses its processor for a while
// plays the same history.
//
// Three clocks: the server's own (s), what the Scripts' stored times make of
// it (the simulated Redis clock, s + skew), and true time (s + gone), by which
// the nodes' monotonic clocks run and the provider judges.
type fleet struct {
	t      tester
	rdb    redis.UniversalClient
	texts  texts
	dice   dice
	nodes  []*simNode
	origin time.Time
	server int64 // last reading of the server's clock
	skew   int64 // simulated Redis clock − server's clock
	owed   int64 // skew that the stored times have yet to follow
	gone   int64 // true time − server's clock
	calls  []int64
	caps   []capFrom
	keys   script.Keys
	made   made
	file   limit.Contract
	named  int
	shares []float64 // min shares of the lanes of jobs; none: they have no lanes

	calling calling
	slews   bool // Redis's clock is slewed; the way to the provider then leaves a part of the guard for it
}

// slewSpare is what a slew that is not noticed may use of the guard.
const slewSpare = 4_000

// calling is when the calls of slots come.
type calling int

const (
	anyTime calling = iota // within what their slots allow
	atOnce
	atLast
)

// made counts the changes that were made.
type made struct {
	changes, pauses, overrides, ends int
	revision                         int64
}

// tester is what a run needs of a *testing.T or a *rapid.T.
type tester interface {
	Helper()
	Fatal(args ...any)
}

// texts are the scripts, or a mutation of them.
type texts struct{ reserve string }

// dice draws a number from 0 to n − 1.
type dice func(n int64) int64

func diceOf(seed uint64) dice { return rand.New(rand.NewPCG(seed, 1)).Int64N }

type capFrom struct {
	at  int64
	cap int64
}

type simNode struct {
	Scripts script.Scripts
	clock   clock.Clock
	known   limit.Settings
	seq     int64
	stepped bool
	place   script.Place
	lane    int   // in whose queue that is
	dueAt   int64 // true time of its turn in the queue
}

const shiftScript = `
local d = tonumber(ARGV[1])
local function less(v) return string.format('%.0f', tonumber(v) - d) end
for _, f in ipairs({'base', 'last', 'slot', 'passed', 'not_before', 'began'}) do
  local v = redis.call('HGET', KEYS[1], f)
  if v and v ~= '0' then redis.call('HSET', KEYS[1], f, less(v)) end
end
for _, f in ipairs({'settings', 'applied'}) do
  local v = redis.call('HGET', KEYS[1], f)
  if v then
    v = string.gsub(v, '"revert_at":([1-9]%d*)', function(at) return '"revert_at":' .. less(at) end)
    redis.call('HSET', KEYS[1], f, v)
  end
end
local lanes = redis.call('HGET', KEYS[1], 'lanes')
if lanes then
  lanes = string.gsub(lanes, '(%d+ %d+) (%d+) (%S+) (%d+)', function(queue, spare, credit, till)
    return queue .. ' ' .. (spare == '0' and '0' or less(spare)) .. ' ' .. credit .. ' ' .. (till == '0' and '0' or less(till))
  end)
  redis.call('HSET', KEYS[1], 'lanes', lanes)
end
local asks = redis.call('HGET', KEYS[1], 'asks')
if asks then redis.call('HSET', KEYS[1], 'asks', (string.gsub(asks, '%d+', function(at) return at == '0' and '0' or less(at) end))) end
local by, at, before = string.match(redis.call('HGET', KEYS[1], 'step_report') or '', '^(%S+) (%d+) (%d+)$')
if by then redis.call('HSET', KEYS[1], 'step_report', by .. ' ' .. less(at) .. ' ' .. (before == '0' and '0' or less(before))) end
local all = redis.call('HGETALL', KEYS[2])
for i = 1, #all, 2 do
  local knows, seen, since = string.match(all[i + 1], '(%d+) (%d+) (%d+)')
  redis.call('HSET', KEYS[2], all[i], knows .. ' ' .. less(seen) .. ' ' .. (since == '0' and '0' or less(since)))
end
for i = 3, #KEYS do
  local v = redis.call('GET', KEYS[i])
  if v then
    local w = {}
    for word in string.gmatch(v, '%S+') do w[#w + 1] = word end
    w[4] = string.format('%.0f', tonumber(w[4]) - d)
    w[6] = string.format('%.0f', tonumber(w[6]) - d)
    redis.call('SET', KEYS[i], table.concat(w, ' '))
  end
end
return 1`

func newFleet(t tester, rdb redis.UniversalClient, with texts, roll dice, nodes int, c limit.Contract) *fleet {
	t.Helper()
	f := &fleet{
		t: t, rdb: rdb, texts: with, dice: roll, origin: time.Unix(1000, 0),
		keys: script.KeysOf("law", "provider"),
	}
	flush(t, rdb)
	f.file = c
	for range nodes {
		f.nodes = append(f.nodes, f.fresh())
	}
	f.server = f.serverTime()
	f.caps = []capFrom{{at: 0, cap: c.Cap}}
	return f
}

// fresh is a node that has just started.
func (f *fleet) fresh() *simNode {
	f.named++
	n := &simNode{
		Scripts: script.NewScripts(f.rdb, "law", "provider", fmt.Sprint("node", f.named)), seq: 1,
		clock: clock.Clock{Origin: f.origin}, known: seeded(f.file),
	}
	n.Scripts.Reserving[limit.DefaultAlgorithm] = redis.NewScript(f.texts.reserve)
	return n
}

func flush(t tester, rdb redis.UniversalClient) {
	t.Helper()
	if err := rdb.FlushDB(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
}

func (f *fleet) serverTime() int64 {
	now, err := f.rdb.Time(context.Background()).Result()
	if err != nil {
		f.t.Fatal(err)
	}
	return now.UnixMicro()
}

func (f *fleet) trueTime() int64 { return f.server + f.gone }

// at is true time as a node's monotonic clock shows it.
func (f *fleet) at(us int64) time.Time { return f.origin.Add(clock.Duration(us)) }

// shift lets Redis's clock go on by d: the stored times move back by it, before
// anybody looks at them.
func (f *fleet) shift(d int64) {
	f.skew += d
	f.owed += d
}

// settle moves the stored times, and takes out what passed on the server by itself.
func (f *fleet) settle() {
	passed := max(0, f.serverTime()-f.server)
	f.server += passed
	f.pass(-passed)
	if f.owed == 0 {
		return
	}
	keys := []string{f.keys.Limit, f.keys.Nodes}
	for _, n := range f.nodes {
		keys = append(keys, n.Scripts.Keys.Reserved(n.Scripts.Node))
	}
	if err := f.rdb.Eval(context.Background(), shiftScript, keys, f.owed).Err(); err != nil {
		f.t.Fatal(err)
	}
	f.owed = 0
}

func (f *fleet) pass(d int64) {
	f.shift(d)
	f.gone += d
}

// reserve lets a node ask once. If the reply is lost, the node knows nothing of
// it, and asks again with the same number the next time.
func (f *fleet) reserve(n *simNode, want int64, before, after int64, lost bool) {
	f.pass(before)
	f.settle()
	known := n.known
	known = revertingAt(f.t, known, moved(known.RevertAt, -f.skew))
	known.Began = moved(n.known.Began, -f.skew)
	costs := f.costs(want, n.known.LargestCost())
	lane := laneOf(f.shares, f.dice)
	if lane.Number != n.lane {
		n.lane, n.place = lane.Number, script.Place{}
	}
	b, err := n.Scripts.Reserve(context.Background(), script.Ask{
		Want: want, Costs: costs, Seq: n.seq, Retry: true, Epoch: n.clock.Epoch, Stepped: n.stepped, Since: f.stored(n.clock.Since), Read: f.stored(n.clock.Trusted),
		Identity: string(IdentityNone), Nearest: nearest, Learned: n.clock.Epoch != 0, Place: n.placeAt(f.trueTime()), Lane: lane, Known: known,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.server = max(f.server, min(b.Now, f.serverTime())) // when the script ran; it may say later, where it holds its clock
	asked := f.trueTime() - before
	f.note(b.Settings)
	f.pass(after)
	if lost {
		return
	}
	n.place, n.dueAt = b.Place, f.trueTime()+b.Wait.Microseconds()
	b.Now += f.skew - after // the simulated clock at the moment of the script
	b.Settings.Began, b.Settings.RevertAt = moved(b.Settings.Began, f.skew-after), moved(b.Settings.RevertAt, f.skew-after)
	r := clock.Reading{Asked: f.at(asked), Answered: f.at(f.trueTime()), Now: b.Now, Epoch: b.Epoch}
	n.stepped = n.clock.Observe(r)
	if !n.known.Newer(b.Settings) {
		n.known = b.Settings
	}
	if want == 0 || n.stepped {
		n.seq += count(want > 0)
		return
	}
	n.seq++
	f.use(n, b, costs, after)
}

// laneOf is a lane of those with these min shares. Its slots lie ahead as far as may be, or less.
func laneOf(shares []float64, roll dice) script.Lane {
	if len(shares) == 0 {
		return script.Lane{}
	}
	return script.Lane{Number: int(roll(int64(len(shares)))), Reach: time.Duration(roll(200_000)) * time.Microsecond, MinShares: shares}
}

// someShares are the min shares of two or three lanes.
func someShares(roll dice) []float64 { return [][]float64{{0, 0.1}, {0, 0}, {0.2, 0, 0.5}}[roll(3)] }

// costs divides units among jobs that count up to largest.
func (f *fleet) costs(units, largest int64) (costs []int64) {
	for units > 0 {
		cost := int64(1)
		if largest > 1 {
			cost += f.dice(min(units, largest))
		}
		costs, units = append(costs, cost), units-cost
	}
	return costs
}

// placeAt is the node's place in the queue, and whether its turn has come.
func (n *simNode) placeAt(us int64) script.Place {
	p := n.place
	p.Due = us >= n.dueAt
	return p
}

// stored is a time of the simulated Redis clock as the server stores it; none stays none.
func (f *fleet) stored(us int64) int64 {
	if us == 0 {
		return 0
	}
	return us - f.skew
}

// note takes in what a reservation found in force: an override may have ended in it,
// or a node have brought older settings back.
func (f *fleet) note(s limit.Settings) {
	if last := f.caps[len(f.caps)-1]; last.cap != s.Cap {
		f.caps = append(f.caps, capFrom{f.trueTime(), s.Cap})
	}
	if s.By == "dispatcher" && s.Revision > f.made.revision {
		f.made.ends++
	}
	f.made.revision = max(f.made.revision, s.Revision)
}

// use makes the calls of the slots given: each somewhere between its bounds,
// most often at one of them, and on its way for up to what the guard leaves. All units of a
// job arrive at once. A reply that was lost may come to jobs of other costs.
func (f *fleet) use(n *simNode, b script.Reservation, costs []int64, after int64) {
	c := b.Settings.Contract
	spread := (c.Guard - c.Lateness).Microseconds()
	if f.slews {
		spread -= slewSpare
	}
	units := int64(0)
	for _, cost := range costs {
		if units+cost > b.Schedule.Given {
			return
		}
		us := b.Schedule.At(units) + f.skew - after
		units += cost
		notBefore, notAfter := n.clock.Slot(us, c.Lateness, f.at(f.trueTime()))
		lo, hi := notBefore.Sub(f.origin).Microseconds(), notAfter.Sub(f.origin).Microseconds()
		lo = max(lo, f.trueTime())
		if lo > hi || f.dice(20) == 0 { // too late, or the job is gone
			continue
		}
		begin := []int64{lo, hi, lo + f.dice(hi-lo+1)}[f.dice(3)]
		way := []int64{0, spread, f.dice(spread + 1)}[f.dice(3)]
		switch f.calling {
		case anyTime:
		case atOnce:
			begin, way = lo, 0
		case atLast:
			begin, way = hi, spread
		}
		f.calls = append(f.calls, slices.Repeat([]int64{begin + way}, int(cost))...)
	}
}

// revertingAt are the settings with another end of their override, packed with it.
func revertingAt(t tester, s limit.Settings, at time.Time) limit.Settings {
	if at.IsZero() {
		return s
	}
	field := regexp.MustCompile(`"revert_at":\d+`)
	text := strings.Replace(s.Pack(), field.FindString(s.Pack()), fmt.Sprint(`"revert_at":`, at.UnixMicro()), 1)
	s, err := limit.Unpack(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// moved is t on another clock; no time stays none.
func moved(t time.Time, d int64) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(clock.Duration(d))
}

func (f *fleet) lose() {
	f.settle()
	if err := f.rdb.Del(context.Background(), f.keys.Limit).Err(); err != nil {
		f.t.Fatal(err)
	}
}

// set changes the settings as an operator does.
func (f *fleet) set(ch control.Change) {
	f.settle()
	c, err := control.NewControl(f.rdb, "law", "provider")
	if err != nil {
		f.t.Fatal(err)
	}
	s, err := c.Set(context.Background(), ch)
	var refused *fault.Error
	if errors.Is(err, control.ErrUnknownLimit) || errors.Is(err, control.ErrUnchanged) || errors.As(err, &refused) {
		return // just lost, or nothing new, or it does not fit what is in force
	}
	if err != nil {
		f.t.Fatal(err)
	}
	f.made.changes++
	f.made.pauses += countInt(ch.Values["paused"] == "true")
	f.made.overrides += countInt(ch.For > 0)
	f.made.ends += countInt(s.Revision > f.made.revision+1 && f.made.revision > 0) // one that was over, and no node had come by since
	f.made.revision = s.Revision
	f.server = max(f.server, f.serverTime())
	f.caps = append(f.caps, capFrom{f.trueTime(), s.Cap})
}

// over returns the first window that holds more than the caps allow: one that
// begins half a second or more after a change holds the new cap, an earlier
// one the larger of the two.
func (f *fleet) over(window time.Duration) string {
	slices.Sort(f.calls)
	w := window.Microseconds()
	end, first := 0, 0
	for i, a := range f.calls {
		for end < len(f.calls) && f.calls[end] < a+w {
			end++
		}
		for first+1 < len(f.caps) && f.caps[first+1].at+500_000 <= a {
			first++
		}
		allowed := int64(0)
		for _, c := range f.caps[first:] {
			if c.at >= a+w {
				break
			}
			allowed = max(allowed, c.cap)
		}
		if int64(end-i) > allowed {
			return fmt.Sprintf("%d units in %s from %d µs on; allowed are %d", end-i, window, a-f.calls[0], allowed)
		}
	}
	return ""
}

func countInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func count(b bool) int64 { return int64(countInt(b)) }

func embeddedRedis(t testing.TB) redis.UniversalClient {
	t.Helper()
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	m.SetTime(time.Unix(1_700_000_000, 0)) // only the fleet makes time pass, so each history is the same on any machine
	return patient(t, m.Addr())
}

// patient is a client for tests that a busy machine must not fail.
func patient(t testing.TB, addr string) redis.UniversalClient {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: time.Minute, WriteTimeout: time.Minute, DialTimeout: time.Minute})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}
