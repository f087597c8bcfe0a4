package throttle

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/lua"
)

// This file and the scripts' headers are the only places that know the order
// of the scripts' arguments and replies.

// fence is why the timeline began anew.
type fence int64

const (
	fenceNone fence = iota
	fenceSettingsLost
	fenceSettingsOld
	fenceTimelineLost
	fenceOtherMaster
	fenceClockBack
	fenceClockStep
	fenceOtherAlgorithm
)

var fenceNames = [...]string{"none", "settings_lost", "settings_old", "timeline_lost", "other_master", "clock_back", "clock_step", "other_algorithm"} //nolint:gochecknoglobals // a constant table

func (f fence) String() string {
	if f < 0 || int(f) >= len(fenceNames) {
		return "fence " + strconv.FormatInt(int64(f), 10)
	}
	return fenceNames[f]
}

// ask is one call of book.lua.
type ask struct {
	want     int64
	seq      int64
	retry    bool  // the reply to this seq may have been lost
	epoch    int64 // of the node's mapping of Redis's clock; 0: it has none
	stepped  bool  // the node saw that clock step
	since    int64 // first reading of that clock in the epoch
	read     int64 // last reading that the node trusts
	identity Identity
	lead     time.Duration
	reach    time.Duration // 0: up to the horizon
	leaves   bool          // whoever is refused does not come again
	place    place         // in the queue
	report   bool          // write the node's record, as each poll does
	hello    bool          // publish a word that only this node heeds
	learned  bool          // known came from Redis and not from the file
	end      bool          // the node leaves
	known    Settings
}

// place is a node's place in the queue of those that were refused.
type place struct {
	taken bool
	at    int64 // units that were wanted before it
	due   bool  // its time has come
}

func (p place) ticket() int64 {
	if !p.taken {
		return -1
	}
	return p.at
}

// flags are the letters that book.lua's header names.
func (a ask) flags() string {
	var letters strings.Builder
	for _, f := range []struct {
		on     bool
		letter string
	}{
		{a.retry, "r"},
		{a.stepped, "s"},
		{!a.leaves, "w"},
		{a.place.taken && a.place.due, "d"},
		{a.report, "p"},
		{a.hello, "h"},
		{a.learned, "l"},
		{a.end, "x"},
	} {
		if f.on {
			letters.WriteString(f.letter)
		}
	}
	return letters.String()
}

// bookFunc asks for slots once.
type bookFunc func(context.Context, ask) (booking, error)

// booking is book.lua's reply: slots on Redis's clock, and the settings in force.
type booking struct {
	now      int64 // Redis's clock, µs since 1970
	epoch    int64 // changes when the timeline began anew
	schedule schedule
	wait     time.Duration
	fence    fence
	quiet    int64         // no slot lies before this
	place    place         // in the queue, for a node that was refused
	poll     time.Duration // after which a node that can do nothing comes by
	settings Settings
}

// limitKeys are the keys of a limit; all in one hash slot per namespace. The
// limit's own key is the channel as well that tells of changes.
type limitKeys struct {
	limit, history, state, nodes, shares, lateness string
}

func keysOf(namespace, name string) limitKeys {
	key := func(kind string) string { return "dispatcher:{" + namespace + "}:" + kind + ":" + name }
	return limitKeys{limit: key("limit"), history: key("history"), state: key("state"), nodes: key("nodes"), shares: key("shares"), lateness: key("lateness")}
}

func bookedKey(namespace, name, node string) string {
	return "dispatcher:{" + namespace + "}:booked:" + name + ":" + node
}

// scripts runs the limiter's scripts on one limit, for one node or operator.
type scripts struct {
	rdb       redis.Scripter
	keys      limitKeys
	booked    string
	node      string
	book      map[string]*redis.Script // by algorithm
	configure *redis.Script
	remove    *redis.Script
}

func newScripts(rdb redis.Scripter, namespace, name, node string) scripts {
	s := scripts{
		rdb: rdb, keys: keysOf(namespace, name), booked: bookedKey(namespace, name, node), node: node,
		book: make(map[string]*redis.Script), configure: redis.NewScript(lua.Configure()), remove: redis.NewScript(lua.Delete()),
	}
	for _, a := range Algorithms() {
		s.book[a.Name] = redis.NewScript(lua.Book(a.Name))
	}
	return s
}

// runBook runs the script of the algorithm that the node knows. Where Redis holds
// settings with another algorithm, that one's script is run at once.
func (s scripts) runBook(ctx context.Context, a ask) (booking, error) {
	b, err := s.runBookOnce(ctx, a)
	if err != nil || b.settings.Algorithm == a.known.Algorithm {
		return b, err
	}
	a.known, a.learned = b.settings, true
	return s.runBookOnce(ctx, a)
}

func (s scripts) runBookOnce(ctx context.Context, a ask) (booking, error) {
	script := s.book[a.known.Algorithm]
	if script == nil {
		return booking{}, fmt.Errorf("reserve slots: VERSION: Redis holds the algorithm %q, which this program does not know", a.known.Algorithm)
	}
	keys := []string{s.keys.limit, s.keys.history, s.keys.state, s.booked, s.keys.nodes}
	reply, err := script.Run(ctx, s.rdb, keys,
		a.want, a.seq, a.flags(), a.epoch, a.since, a.read, string(a.identity), a.lead.Microseconds(), s.node,
		a.known.Relearn().Microseconds(), a.reach.Microseconds(), a.place.ticket(), a.known.pack(), micros(a.known.from)).Slice()
	if err != nil {
		return booking{}, fmt.Errorf("reserve slots: %w", err)
	}
	return decodeBooking(reply, a.known)
}

const bookNumbers = 15

var errReply = errors.New("unexpected reply of a script")

// numbersOf reads the numbers of a script's reply.
func numbersOf(reply []any) ([]int64, error) {
	n := make([]int64, len(reply))
	for i := range n {
		v, ok := reply[i].(int64)
		if !ok {
			return nil, fmt.Errorf("%w: value %d is %T", errReply, i+1, reply[i])
		}
		n[i] = v
	}
	return n, nil
}

// decodeBooking reads a reply to a node that knows the settings given; they are
// in the reply only where they are others.
func decodeBooking(reply []any, known Settings) (booking, error) {
	if len(reply) != bookNumbers && len(reply) != bookNumbers+1 {
		return booking{}, fmt.Errorf("reserve slots: %w: %d values", errReply, len(reply))
	}
	n, err := numbersOf(reply[:bookNumbers])
	if err != nil {
		return booking{}, fmt.Errorf("reserve slots: %w", err)
	}
	set := known
	if len(reply) > bookNumbers {
		text, _ := reply[bookNumbers].(string)
		if set, err = unpack(text); err != nil {
			return booking{}, fmt.Errorf("reserve slots: %w: %w", errReply, err)
		}
	}
	set.from = fromMicros(n[12])
	b := booking{
		now: n[0], epoch: n[1],
		schedule: schedule{given: n[2], base: n[3], n: n[4], floor: n[5], units: n[6], period: n[7], debt: n[8]},
		wait:     duration(n[9]),
		fence:    fence(n[10]),
		quiet:    n[11],
		place:    place{taken: n[13] >= 0, at: max(0, n[13])},
		poll:     duration(n[14]),
		settings: set,
	}
	if b.schedule.units < 1 || b.schedule.period < 1 {
		return booking{}, fmt.Errorf("reserve slots: %w: pace %d/%d", errReply, b.schedule.units, b.schedule.period)
	}
	return b, nil
}

// changeStatus is configure.lua's reply.
type changeStatus int64

const (
	changeDone changeStatus = iota
	changeUnknown
	changeConflict
)

// runConfigure replaces the settings, if those expected still are in force.
func (s scripts) runConfigure(ctx context.Context, expected, to Settings) (changeStatus, error) {
	n, err := s.configure.Run(ctx, s.rdb, []string{s.keys.limit, s.keys.history}, expected.pack(), to.pack()).Int64()
	if err != nil {
		return 0, fmt.Errorf("change settings: %w", err)
	}
	return changeStatus(n), nil
}
