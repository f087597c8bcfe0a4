package throttle

import (
	"context"
	"errors"
	"fmt"
	"strconv"
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
)

var fenceNames = [...]string{"none", "settings_lost", "settings_old", "timeline_lost", "other_master", "clock_back", "clock_step"} //nolint:gochecknoglobals // a constant table

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
	epoch    int64
	stepped  bool
	identity Identity
	lead     time.Duration
	known    Settings
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
	quiet    int64 // no slot lies before this
	settings Settings
}

// Keys of a limit; all in one hash slot per namespace.
func limitKey(namespace, name string) string {
	return "dispatcher:{" + namespace + "}:limit:" + name
}

func bookedKey(namespace, name, node string) string {
	return "dispatcher:{" + namespace + "}:booked:" + name + ":" + node
}

// scripts runs the limiter's scripts on one limit.
type scripts struct {
	rdb       redis.Scripter
	keys      []string // of book.lua
	book      *redis.Script
	configure *redis.Script
}

func newScripts(rdb redis.Scripter, namespace, name, node string) scripts {
	return scripts{
		rdb:       rdb,
		keys:      []string{limitKey(namespace, name), bookedKey(namespace, name, node)},
		book:      redis.NewScript(lua.Book),
		configure: redis.NewScript(lua.Configure),
	}
}

func (s scripts) runBook(ctx context.Context, a ask) (booking, error) {
	k := a.known
	units, period := k.Pace()
	reply, err := s.book.Run(ctx, s.rdb, s.keys,
		a.want, a.seq, a.epoch, flag(a.stepped), string(a.identity), a.lead.Microseconds(),
		k.By, micros(k.Changed), k.Revision, k.Cap, k.Window.Microseconds(), k.Burst, k.Guard.Microseconds(),
		k.Lateness.Microseconds(), k.Horizon.Microseconds(), units, period, flag(k.Paused), micros(k.from)).Slice()
	if err != nil {
		return booking{}, fmt.Errorf("book slots: %w", err)
	}
	return decodeBooking(reply)
}

const bookReplyLen = 25

var errReply = errors.New("unexpected reply of a script")

func decodeBooking(reply []any) (booking, error) {
	if len(reply) != bookReplyLen {
		return booking{}, fmt.Errorf("book slots: %w: %d values", errReply, len(reply))
	}
	var n [bookReplyLen - 1]int64
	for i := range n {
		v, ok := reply[i].(int64)
		if !ok {
			return booking{}, fmt.Errorf("book slots: %w: value %d is %T", errReply, i+1, reply[i])
		}
		n[i] = v
	}
	by, _ := reply[bookReplyLen-1].(string)
	b := booking{
		now: n[0], epoch: n[1],
		schedule: schedule{given: n[2], base: n[3], n: n[4], floor: n[5], units: n[6], period: n[7], debt: n[8]},
		wait:     time.Duration(n[9]) * time.Microsecond,
		fence:    fence(n[10]),
		quiet:    n[11],
		settings: Settings{
			Contract: Contract{
				Cap: n[14], Window: duration(n[15]), Burst: n[16],
				Guard: duration(n[17]), Lateness: duration(n[18]), Horizon: duration(n[19]),
			},
			Changed: fromMicros(n[12]), Revision: n[13], Paused: n[22] == 1, By: by, from: fromMicros(n[23]),
		},
	}
	if b.schedule.units < 1 || b.schedule.period < 1 {
		return booking{}, fmt.Errorf("book slots: %w: pace %d/%d", errReply, b.schedule.units, b.schedule.period)
	}
	return b, nil
}

// change is configure.lua's reply.
type change struct {
	status   int64
	changed  time.Time
	revision int64
}

const (
	changeDone int64 = iota
	changeUnknown
	changeConflict
)

func (s scripts) runConfigure(ctx context.Context, expected time.Time, to Settings) (change, error) {
	units, period := to.Pace()
	n, err := s.configure.Run(ctx, s.rdb, s.keys[:1],
		micros(expected), to.By, to.Cap, to.Window.Microseconds(), to.Burst, to.Guard.Microseconds(),
		to.Lateness.Microseconds(), to.Horizon.Microseconds(), units, period, flag(to.Paused)).Int64Slice()
	if err != nil {
		return change{}, fmt.Errorf("change settings: %w", err)
	}
	if len(n) != 4 {
		return change{}, fmt.Errorf("change settings: %w: %d values", errReply, len(n))
	}
	return change{status: n[0], changed: fromMicros(n[1]), revision: n[2]}, nil
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

func duration(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// micros is t on Redis's clock; the zero time is 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us)
}
