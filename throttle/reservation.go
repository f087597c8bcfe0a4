package throttle

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// This file and reserve/call.lua are the only places that know the order of the
// arguments and the reply of a reservation.

// cooldown is why a cooldown began: the timeline was lost, or may have been.
type cooldown int64

const (
	cooldownNone cooldown = iota
	cooldownSettingsLost
	cooldownSettingsOld
	cooldownTimelineLost
	cooldownOtherMaster
	cooldownClockBack
	cooldownClockStep
	cooldownOtherAlgorithm
)

var cooldownNames = [...]string{"none", "settings_lost", "settings_old", "timeline_lost", "other_master", "clock_back", "clock_step", "other_algorithm"} //nolint:gochecknoglobals // a constant table

func (c cooldown) String() string {
	if c < 0 || int(c) >= len(cooldownNames) {
		return "cooldown " + strconv.FormatInt(int64(c), 10)
	}
	return cooldownNames[c]
}

// ask is one call of reserve.lua.
type ask struct {
	want     int64
	seq      int64
	retry    bool   // the reply to this seq may have been lost
	epoch    int64  // of the node's mapping of Redis's clock; 0: it has none
	stepped  bool   // the node saw that clock step
	since    int64  // first reading of that clock in the epoch
	read     int64  // last reading that the node trusts
	identity string // info or none: how the script learns which master it runs on
	lead     time.Duration
	reach    time.Duration // 0: up to the horizon
	refuses  bool          // a refused caller does not ask again
	place    place
	report   bool // write the node's record, as each poll does
	hello    bool // publish a message that only this node heeds
	learned  bool // known came from Redis and not from the file
	leaves   bool // the node ends
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

// flags are the letters that the script's header names.
func (a ask) flags() string {
	var letters strings.Builder
	for _, f := range []struct {
		on     bool
		letter string
	}{
		{a.retry, "r"},
		{a.stepped, "s"},
		{!a.refuses, "w"},
		{a.place.taken && a.place.due, "d"},
		{a.report, "p"},
		{a.hello, "h"},
		{a.learned, "l"},
		{a.leaves, "x"},
	} {
		if f.on {
			letters.WriteString(f.letter)
		}
	}
	return letters.String()
}

// reservation is the reply: slots on Redis's clock, and the settings in force.
type reservation struct {
	now       int64 // Redis's clock, µs since 1970
	epoch     int64 // changes when the timeline begins again
	schedule  schedule
	wait      time.Duration
	cooldown  cooldown
	notBefore int64         // no slot lies before this
	place     place         // in the queue, for a node that was refused
	poll      time.Duration // after which a node that was refused polls
	settings  Settings
}

// Reserve runs the script of the algorithm that the node knows. Where Redis holds
// settings with another algorithm, it runs that one's script at once.
func (s Scripts) Reserve(ctx context.Context, a ask) (reservation, error) {
	r, err := s.reserveOnce(ctx, a)
	if err != nil || r.settings.Algorithm == a.known.Algorithm {
		return r, err
	}
	a.known, a.learned = r.settings, true
	return s.reserveOnce(ctx, a)
}

func (s Scripts) reserveOnce(ctx context.Context, a ask) (reservation, error) {
	script := s.reserving[a.known.Algorithm]
	if script == nil {
		return reservation{}, fmt.Errorf("reserve slots: VERSION: Redis holds the algorithm %q, which this program does not know", a.known.Algorithm)
	}
	keys := []string{s.keys.Limit, s.keys.History, s.keys.State, s.keys.Reserved(s.node), s.keys.Nodes}
	reply, err := script.Run(ctx, s.rdb, keys,
		a.want, a.seq, a.flags(), a.epoch, a.since, a.read, a.identity, a.lead.Microseconds(), s.node,
		a.known.Relearn().Microseconds(), a.reach.Microseconds(), a.place.ticket(), a.known.Pack(), Micros(a.known.Began)).Slice()
	if err != nil {
		return reservation{}, fmt.Errorf("reserve slots: %w", err)
	}
	r, err := decodeReservation(reply, a.known)
	if err != nil {
		return reservation{}, fmt.Errorf("reserve slots: %w", err)
	}
	return r, nil
}

const reservationNumbers = 15

// decodeReservation reads a reply to a node that knows the settings given; they are
// in the reply only where they are others.
func decodeReservation(reply []any, known Settings) (reservation, error) {
	if len(reply) != reservationNumbers && len(reply) != reservationNumbers+1 {
		return reservation{}, fmt.Errorf("%w: %d values", ErrReply, len(reply))
	}
	n, err := numbersOf(reply[:reservationNumbers])
	if err != nil {
		return reservation{}, err
	}
	set := known
	if len(reply) > reservationNumbers {
		text, _ := reply[reservationNumbers].(string)
		if set, err = Unpack(text); err != nil {
			return reservation{}, fmt.Errorf("%w: %w", ErrReply, err)
		}
	}
	set.Began = FromMicros(n[12])
	r := reservation{
		now: n[0], epoch: n[1],
		schedule:  schedule{given: n[2], base: n[3], n: n[4], floor: n[5], units: n[6], period: n[7], debt: n[8]},
		wait:      duration(n[9]),
		cooldown:  cooldown(n[10]),
		notBefore: n[11],
		place:     place{taken: n[13] >= 0, at: max(0, n[13])},
		poll:      duration(n[14]),
		settings:  set,
	}
	if r.schedule.units < 1 || r.schedule.period < 1 {
		return reservation{}, fmt.Errorf("%w: pace %d/%d", ErrReply, r.schedule.units, r.schedule.period)
	}
	return r, nil
}
