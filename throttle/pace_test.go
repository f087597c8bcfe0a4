package throttle

import (
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"pgregory.net/rapid"

	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/limit"
)

// What an ordinary contract may ask for.
const (
	ordinaryCap    = 1_000_000
	ordinaryWindow = time.Second
	exactBelow     = 1 << 53 // whole numbers up to here are exact in a script
)

// anyContract draws a contract that is to be taken: any cap up to a million in
// any window from 1 s to 31 days, with any guard, lateness, burst and reserve.
// The dice return a number from 0 to below their argument.
func anyContract(roll dice) limit.Contract {
	c := contract(1 + upTo(roll, ordinaryCap))
	c.Window = ordinaryWindow + clock.Duration(upTo(roll, (limit.MaxWindow-ordinaryWindow).Microseconds()+1))
	most := min(c.Window/limit.MinWindowGuards, time.Minute)
	c.Guard = 2*time.Millisecond + clock.Duration(upTo(roll, (most-2*time.Millisecond).Microseconds()+1))
	c.Lateness = limit.MinLateness + clock.Duration(roll((c.Guard - limit.MinLateness).Microseconds()))
	c.Burst = 1 + upTo(roll, c.Cap)
	if left := c.Cap - c.Burst; left > 0 && roll(3) == 0 {
		c.MaxNodes = 1 + upTo(roll, min(left, 100))
		c.Reserve = c.MaxNodes * (1 + upTo(roll, left/c.MaxNodes))
	}
	return c
}

// upTo draws from 0 to below n: either end as often as small and large numbers.
func upTo(roll dice, n int64) int64 {
	switch roll(4) {
	case 0:
		return roll(min(n, 50))
	case 1:
		return n - 1 - roll(min(n, 50))
	case 2:
		return roll(roll(n) + 1)
	}
	return roll(n)
}

func rolls(rt *rapid.T) dice { return diceOf(rapid.Uint64().Draw(rt, "seed")) }

// Every ordinary contract is taken by each algorithm that knows its parameters.
func TestEveryOrdinaryContractIsTaken(t *testing.T) {
	t.Parallel()
	for _, a := range limit.Algorithms() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				c := anyContract(rolls(rt))
				if a.Name == "redis_cell" {
					c.Window = (c.Window + time.Second - 1).Truncate(time.Second) // whole seconds, and room for the guard
					c.Window = min(c.Window, limit.MaxWindow)
				}
				if (limit.Terms{Contract: c, Algorithm: a.Name}).Validate() != nil {
					c.Burst = 1
				}
				if err := (limit.Terms{Contract: c, Algorithm: a.Name}).Validate(); err != nil {
					rt.Errorf("%v, reserve %d: %v", c, c.Reserve, err)
				}
			})
		})
	}
}

// These were refused once: "too large to be counted exactly".
func refusedOnce() []limit.Contract {
	with := func(n int64, window time.Duration, burst int64) limit.Contract {
		c := contract(n)
		c.Window, c.Burst = window, burst
		return c
	}
	const day = 24 * time.Hour
	return []limit.Contract{
		with(999_999, time.Hour, 1), with(100_000, day, 100), with(50_021, day, 1), with(1_001, 30*day, 1),
		with(1_000_000, limit.MaxWindow, 1), with(999_983, limit.MaxWindow-time.Microsecond, 499_979), with(1_000_000, limit.MaxWindow, 1_000_000),
		with(1_000_000, time.Second, 1), with(999_983, time.Second+time.Microsecond, 1), with(1, limit.MaxWindow, 1),
		with(999_999_937, day, 1), with(limit.MaxCap-1, limit.MaxWindow, 100_000_000),
	}
}

// The pace is never faster than the contract's; of ordinary contracts it is
// exact, and of none it is slower by more than two parts in a million.
func TestPaceIsNeverFaster(t *testing.T) {
	t.Parallel()
	holds := func(t interface{ Errorf(string, ...any) }, c limit.Contract) {
		units, period := c.Pace()
		slower := new(big.Int).Mul(big.NewInt(c.Cap-c.Reserve-c.Burst+1), big.NewInt(period))
		exact := new(big.Int).Mul(big.NewInt(units), big.NewInt((c.Window + c.Guard).Microseconds()))
		switch by, _ := new(big.Rat).SetFrac(slower, exact).Float64(); {
		case slower.Cmp(exact) < 0:
			t.Errorf("%v: a pace of %d in %d µs is faster than the contract", c, units, period)
		case c.Cap <= limit.MaxUnits && slower.Cmp(exact) != 0, by > 1+2e-6:
			t.Errorf("%v: a pace of %d in %d µs is slower by %g", c, units, period, by-1)
		}
		if min(units, period) > limit.MaxUnits || units < 1 {
			t.Errorf("%v: a pace of %d in %d µs is not to be counted in a script", c, units, period)
		}
	}
	for _, c := range refusedOnce() {
		holds(t, c)
	}
	rapid.Check(t, func(rt *rapid.T) {
		c := anyContract(rolls(rt))
		holds(rt, c)
		c.Cap += rapid.Int64Range(0, limit.MaxCap-c.Cap).Draw(rt, "more")
		holds(rt, c)
	})
}

// question is what a script asks of a pace.
type question struct{ units, period, count, us int64 }

// questions are about counts and times as they come up: up to a full bucket and a
// block behind it.
func questions(roll dice) (list []question) {
	for range 40 {
		c := anyContract(roll)
		if roll(4) == 0 {
			c.Cap += roll(limit.MaxCap - c.Cap + 1)
		}
		units, period := c.Pace()
		q := question{units: units, period: period, count: upTo(roll, 2*c.Cap+2) - c.Cap/2, us: upTo(roll, 2*period) - period/2}
		if roll(2) == 0 { // where a whole number of units has just passed, or not quite
			q.us = max(-clock.Far/2, min(clock.Far/2, clock.After(q.count, units, period)-roll(2)))
		}
		list = append(list, q)
	}
	return list
}

// rounded are questions of which us * units is rounded up past a whole unit, and down below one.
var rounded = []question{
	{1_513_497, 1_240_230_652_047, 2_017_894_391, 1_653_557_606_200_682},
	{1_307_117, 1_519_807_314_669, 2_136_592_646, 2_484_252_849_483_859},
}

// The scripts and the limiter count a pace alike, and exactly: held to numbers
// of any size.
func TestScriptsCountAPaceExactly(t *testing.T) {
	t.Parallel()
	rdb := patient(t, miniredis.RunT(t).Addr())
	_, text, found := strings.Cut(scriptOf(limit.TokenBucket), "-- The arithmetic of a pace")
	pace, _, ends := strings.Cut(text, "-- A token bucket")
	if !found || !ends {
		t.Fatal("the script has no pace.lua in front of the algorithm")
	}
	text = "--" + pace + `
local reply = {}
for i = 1, #ARGV, 4 do
  local c = {units = tonumber(ARGV[i]), period = tonumber(ARGV[i + 1])}
  reply[#reply + 1] = string.format('%.0f %.0f', after(c, tonumber(ARGV[i + 2])) + 0, within(c, tonumber(ARGV[i + 3])) + 0)
end
return reply`
	ask := func(rt *rapid.T) {
		list := append(questions(rolls(rt)), rounded...)
		var args []any
		for _, q := range list {
			args = append(args, q.units, q.period, q.count, q.us)
		}
		got, err := rdb.Eval(t.Context(), text, nil, args...).StringSlice()
		if err != nil {
			rt.Fatal(err)
		}
		for i, q := range list {
			exact := exactly(q)
			if got[i] != exact {
				rt.Errorf("%+v: a script counts %s, want %s", q, got[i], exact)
			}
			if limiter := fmt.Sprint(clock.After(q.count, q.units, q.period), " ", clock.Within(q.us, q.units, q.period)); limiter != exact {
				rt.Errorf("%+v: the limiter counts %s, want %s", q, limiter, exact)
			}
			q.mustStayExact(rt)
		}
	}
	for range 4 { // once, and the fault of a pace that is not exact is missed one time in six
		rapid.Check(t, ask)
	}
}

// exactly is the answer in numbers of any size, bounded as theirs is.
func exactly(q question) string {
	bounded := func(n *big.Int) int64 {
		if !n.IsInt64() || max(n.Int64(), -n.Int64()) > clock.Far {
			return int64(n.Sign()) * clock.Far
		}
		return n.Int64()
	}
	// Div rounds down for a divisor above 0; up is down on the other side.
	up := new(big.Int).Mul(big.NewInt(-q.count), big.NewInt(q.period))
	up.Div(up, big.NewInt(q.units))
	down := new(big.Int).Mul(big.NewInt(q.us), big.NewInt(q.units))
	down.Div(down, big.NewInt(q.period))
	return fmt.Sprint(-bounded(up), " ", bounded(down))
}

// mustStayExact is what pace.lua claims of its numbers: each that is not above 2^53
// stands for a time beyond FAR, and is cut down to it.
func (q question) mustStayExact(t *rapid.T) {
	whole, rest := q.period/q.units, q.period%q.units
	size := func(a, b int64) *big.Int {
		n := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
		return n.Abs(n)
	}
	if product := size(q.count, rest); product.Cmp(big.NewInt(exactBelow)) >= 0 {
		t.Errorf("%+v: count * rest is %v, which a script rounds", q, product)
	}
	if product := size(q.count, whole); product.Cmp(big.NewInt(exactBelow-q.count)) >= 0 && product.Cmp(big.NewInt(clock.Far)) < 0 {
		t.Errorf("%+v: count * whole is %v, which a script rounds and does not cut down", q, product)
	}
}
