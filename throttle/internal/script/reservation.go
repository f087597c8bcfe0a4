package script

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/limit"
)

// This file and reserve/call.lua are the only places that know the order of the
// arguments and the reply of a reservation.

// Cooldown is why a cooldown began: the timeline was lost, or may have been.
type Cooldown int64

// The causes of a cooldown, as reserve/cooldown.lua numbers them.
const (
	CooldownNone Cooldown = iota
	CooldownSettingsLost
	CooldownSettingsOld
	CooldownTimelineLost
	CooldownOtherMaster
	CooldownClockBack
	CooldownClockStep
	cooldownOtherAlgorithm
)

// CooldownNames are the causes' names in metrics and logs.
var CooldownNames = [...]string{"none", "settings_lost", "settings_old", "timeline_lost", "other_master", "clock_back", "clock_step", "other_algorithm"} //nolint:gochecknoglobals // a constant table

func (c Cooldown) String() string {
	if c < 0 || int(c) >= len(CooldownNames) {
		return "cooldown " + strconv.FormatInt(int64(c), 10)
	}
	return CooldownNames[c]
}

// Shortage is why jobs that wanted a slot got none.
type Shortage int64

// The shortages, as reserve/call.lua numbers them.
const (
	ShortOfNothing Shortage = iota // another reason, such as a pause
	ShortOfCalls                   // calls in flight left no room for them
	ShortOfUnits                   // the algorithm had no more
)

// Ask is one call of reserve.lua.
type Ask struct {
	Want        int64         // units
	Costs       []int64       // units of each job, in order; together Want, or more where slots may go to any of the jobs; nil: one each
	Busy        int64         // calls in flight, jobs that wait for their slots included
	Hold        time.Duration // after which a call that is granted now is over
	Call        int64         // number of this call of the node
	Seq         int64
	Retry       bool      // the reply to this seq may have been lost
	Epoch       int64     // of the node's mapping of Redis's clock; 0: it has none
	Stepped     bool      // the node saw that clock step
	Binds       []float64 // share of the time in which jobs waited for each limit, from 0 to 1
	Since       int64     // first reading of that clock in the epoch
	Read        int64     // last reading that the node trusts
	Identity    string    // info or none: how the script learns which master it runs on
	Nearest     time.Duration
	Reach       time.Duration // 0: up to the horizon
	Refuses     bool          // a refused caller does not ask again
	Place       Place         // in the queue of the lane
	Lane        Lane          // of the jobs
	Report      bool          // write the node's record, as each poll does
	Hello       bool          // publish a message that only this node heeds
	Learned     bool          // known came from Redis and not from the file
	Leaves      bool          // the node ends
	Known       limit.Settings
	Corrections []Correction // of the first limit
	Gates       Gates        // none: the limit is the only one
}

// Correction changes what a slot counts.
type Correction struct {
	Slot  int64 // on Redis's clock, in µs
	Units int64 // that are given back; negative: that are charged
}

func (a Ask) corrections() string {
	var text []byte
	for _, c := range a.Corrections {
		text = fmt.Appendf(text, "%d:%d ", c.Slot, c.Units)
	}
	return string(text)
}

// Place is a node's place in the queue of those that were refused.
type Place struct {
	Taken bool
	At    int64 // units that were wanted before it
	Due   bool  // its time has come
}

// Ticket is the place as the script knows it; -1: none.
func (p Place) Ticket() int64 {
	if !p.Taken {
		return -1
	}
	return p.At
}

// Lane is that of all jobs of a call.
type Lane struct {
	Number    int           // from 0, the most urgent
	Reach     time.Duration // 0: up to the horizon
	MinShares []float64     // of all lanes; empty: there is one
}

// place is the node's place in the queue, and the lane, as reserve/lanes.lua reads them.
func (a Ask) place() string {
	if len(a.Lane.MinShares) < 2 {
		return strconv.FormatInt(a.Place.Ticket(), 10)
	}
	text := fmt.Appendf(nil, "%d %d %d", a.Place.Ticket(), a.Lane.Number, a.Lane.Reach.Microseconds())
	for _, share := range a.Lane.MinShares {
		text = strconv.AppendFloat(append(text, ' '), share, 'f', -1, 64)
	}
	return string(text)
}

// since is the first reading of the clock, and behind it the shares of Binds in thousandths.
func (a Ask) since() string {
	text := strconv.AppendInt(nil, a.Since, 10)
	for _, share := range a.Binds {
		text = strconv.AppendInt(append(text, ' '), int64(math.Round(1000*share)), 10)
	}
	return string(text)
}

// costs are the units of each job; empty where each counts one.
func (a Ask) costs() string {
	if !slices.ContainsFunc(a.Costs, func(cost int64) bool { return cost != 1 }) {
		return ""
	}
	var text []byte
	for _, c := range a.Costs {
		text = strconv.AppendInt(append(text, ' '), c, 10)
	}
	return string(text[1:])
}

// Choosing reports whether slots may go to any of the jobs, as reserve/jobs.lua tells it.
func (a Ask) Choosing() bool {
	kind, err := limit.AlgorithmNamed(a.Known.Algorithm)
	return len(a.Gates.Known) > 0 || err == nil && !kind.Ahead && a.costs() != ""
}

// FirstCost is what the first job counts.
func (a Ask) FirstCost() int64 {
	if len(a.Costs) == 0 {
		return 1
	}
	return a.Costs[0]
}

// BeforeLast is how many units the jobs count that stand before the last one, where all want
// that many or the first one does.
func (a Ask) BeforeLast(want int64) int64 {
	if want <= a.FirstCost() || len(a.Costs) == 0 {
		return want - a.FirstCost()
	}
	return want - a.Costs[len(a.Costs)-1]
}

// Fitting is how many of the units that are wanted the first jobs, most of them at most, get
// where so many are free, by an algorithm that reserves ahead. reserve/jobs.lua is the same.
func (a Ask) Fitting(free, want, most, largest int64) (given int64) {
	if a.Costs == nil {
		return max(0, min(free, want, most))
	}
	for i, cost := range a.Costs {
		if int64(i) >= most || cost > largest || given+cost > want || given >= free {
			break
		}
		given += cost
	}
	return given
}

// flags are the letters that the script's header names.
func (a Ask) flags() string {
	var letters strings.Builder
	for _, f := range []struct {
		on     bool
		letter string
	}{
		{a.Retry, "r"},
		{a.Stepped, "s"},
		{!a.Refuses, "w"},
		{a.Place.Taken && a.Place.Due, "d"},
		{a.Report, "p"},
		{a.Hello, "h"},
		{a.Learned, "l"},
		{a.Leaves, "x"},
	} {
		if f.on {
			letters.WriteString(f.letter)
		}
	}
	return letters.String()
}

// Reservation is the reply: slots on Redis's clock, and the settings in force.
type Reservation struct {
	Now       int64 // Redis's clock, µs since 1970
	Epoch     int64 // changes when the timeline begins again
	Schedule  clock.Schedule
	Wait      time.Duration
	Cooldown  Cooldown
	NotBefore int64          // no slot lies before this
	Place     Place          // in the queue, for a node that was refused
	Poll      time.Duration  // after which a node that was refused polls
	Short     Shortage       // why jobs got no slot
	Slowdown  limit.Slowdown // what the provider's answers leave of the limit
	Settings  limit.Settings
	Choice    *Choice // nil: slots go to the first jobs
}

// Grants are the jobs of these costs that got slots, in the order of these, and what they count. All units of a
// job go at the slot of its first one.
func (r Reservation) Grants(costs []int64) (all []Grant, units int64) {
	if r.Choice != nil {
		for _, one := range r.Choice.Granted {
			units += costs[one.Job]
		}
		return r.Choice.Granted, units
	}
	for i, cost := range costs {
		if units+cost > r.Schedule.Given {
			break
		}
		all, units = append(all, Grant{i, r.Schedule.At(units)}), units+cost
	}
	return all, units
}

// Reserve runs the script of the algorithm that the node knows. Where Redis holds
// settings with another algorithm, it runs that one's script at once.
func (s Scripts) Reserve(ctx context.Context, a Ask) (Reservation, error) {
	r, err := s.reserveOnce(ctx, a)
	if err != nil || r.Settings.Algorithm == a.Known.Algorithm {
		return r, err
	}
	a.Known, a.Learned = r.Settings, true
	return s.reserveOnce(ctx, a)
}

func (s Scripts) reserveOnce(ctx context.Context, a Ask) (Reservation, error) {
	script := s.Reserving[a.Known.Algorithm]
	if script == nil {
		return Reservation{}, fmt.Errorf("reserve slots: VERSION: Redis holds the algorithm %q, which this program does not know", a.Known.Algorithm)
	}
	keys := []string{s.Keys.Limit, s.Keys.History, s.Keys.State, s.Keys.Reserved(s.Node), s.Keys.Nodes, s.Keys.Calls}
	args := []any{
		a.Want, a.Seq, a.flags(), a.Epoch, a.since(), a.Read, a.Identity, a.Nearest.Microseconds(), s.Node,
		a.Known.Relearn().Microseconds(), a.Reach.Microseconds(), a.place(), a.Known.Pack(), limit.Micros(a.Known.Began), a.costs(), a.Busy, a.Hold.Microseconds(), a.Call, a.corrections(),
	}
	reply, err := script.Run(ctx, s.rdb, append(keys, a.Gates.keys(s.Keys, a.Epoch)...), append(args, a.Gates.arguments()...)...).Slice()
	if err != nil {
		return Reservation{}, fmt.Errorf("reserve slots: %w", err)
	}
	r, err := decodeReservation(reply, a)
	if err != nil {
		return Reservation{}, fmt.Errorf("reserve slots: %w", err)
	}
	return r, nil
}

const reservationNumbers = 16

// decodeReservation reads a reply. Behind the numbers is the slowdown. The settings in force are in it only where the node knows
// others, and a choice only where slots may go to any of the jobs.
func decodeReservation(reply []any, a Ask) (Reservation, error) {
	const least = reservationNumbers + 1
	chose := least + 3 + 2*len(a.Gates.Known)
	if len(reply) != chose && (len(a.Gates.Known) > 0 || len(reply) != least && len(reply) != least+1) {
		return Reservation{}, wrongCount(len(reply), fmt.Sprintf("%d, or %d at least without gates", chose, least))
	}
	n, err := numbersOf(reply[:reservationNumbers])
	if err != nil {
		return Reservation{}, err
	}
	texts, err := textsOf(reply[reservationNumbers:])
	if err != nil {
		return Reservation{}, err
	}
	slow, err := limit.UnpackSlowdown(texts[0])
	if err != nil {
		slow = limit.Slowdown{} // a node may plan as if there were none: the script keeps to it
	}
	set := a.Known
	if len(texts) > 1 && texts[1] != "" {
		if set, err = limit.Unpack(texts[1]); err != nil {
			return Reservation{}, fmt.Errorf("%w: %w", ErrReply, err)
		}
	}
	var choice *Choice
	if len(reply) == chose {
		if choice, err = a.decodeChoice(n[0], texts[2:]); err != nil {
			return Reservation{}, err
		}
	}
	set.Began = limit.FromMicros(n[12])
	r := Reservation{
		Now: n[0], Epoch: n[1],
		Schedule:  clock.Schedule{Given: n[2], Base: n[3], N: n[4], Floor: n[5], Units: n[6], Period: n[7], Debt: n[8]},
		Wait:      clock.Duration(n[9]),
		Cooldown:  Cooldown(n[10]),
		NotBefore: n[11],
		Place:     Place{Taken: n[13] >= 0, At: max(0, n[13])},
		Poll:      clock.Duration(n[14]),
		Short:     Shortage(n[15]),
		Slowdown:  slow,
		Settings:  set,
		Choice:    choice,
	}
	if r.Schedule.Units < 1 || r.Schedule.Period < 1 {
		return Reservation{}, fmt.Errorf("%w: pace %d/%d", ErrReply, r.Schedule.Units, r.Schedule.Period)
	}
	return r, nil
}
