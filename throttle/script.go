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
	epoch    int64
	stepped  bool
	identity Identity
	lead     time.Duration
	reach    time.Duration // 0: up to the horizon
	leaves   bool          // whoever is refused does not come again
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

// limitKeys are the keys of a limit; all in one hash slot per namespace. The
// limit's own key is the channel as well that tells of changes.
type limitKeys struct {
	limit, history, state, turns, nodes string
}

func keysOf(namespace, name string) limitKeys {
	key := func(kind string) string { return "dispatcher:{" + namespace + "}:" + kind + ":" + name }
	return limitKeys{limit: key("limit"), history: key("history"), state: key("state"), turns: key("turns"), nodes: key("nodes")}
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
	book      *redis.Script
	configure *redis.Script
}

func newScripts(rdb redis.Scripter, namespace, name, node string, a Algorithm) scripts {
	return scripts{
		rdb: rdb, keys: keysOf(namespace, name), booked: bookedKey(namespace, name, node), node: node,
		book: redis.NewScript(lua.Book(a.Name)), configure: redis.NewScript(lua.Configure()),
	}
}

func (s scripts) runBook(ctx context.Context, a ask) (booking, error) {
	keys := []string{s.keys.limit, s.keys.history, s.keys.state, s.booked, s.keys.turns, s.keys.nodes}
	args := []any{
		a.want, a.seq, a.epoch, flag(a.stepped), string(a.identity), a.lead.Microseconds(), s.node,
		a.known.Relearn().Microseconds(), a.reach.Microseconds(), flag(!a.leaves),
	}
	reply, err := s.book.Run(ctx, s.rdb, keys, append(args, encodeSettings(a.known)...)...).Slice()
	if err != nil {
		return booking{}, fmt.Errorf("book slots: %w", err)
	}
	return decodeBooking(reply, a.known)
}

// Lengths of the lists that the scripts read and write.
const (
	settingsNumbers = 17
	settingsWords   = 3
	bookNumbers     = 12
	termsNumbers    = 9
)

var errReply = errors.New("unexpected reply of a script")

// decodeBooking reads a reply to a node that knows the settings given; they are
// in the reply only where they are others.
func decodeBooking(reply []any, known Settings) (booking, error) {
	if len(reply) != bookNumbers && len(reply) != bookNumbers+settingsNumbers+settingsWords {
		return booking{}, fmt.Errorf("book slots: %w: %d values", errReply, len(reply))
	}
	var n [bookNumbers]int64
	for i := range n {
		v, ok := reply[i].(int64)
		if !ok {
			return booking{}, fmt.Errorf("book slots: %w: value %d is %T", errReply, i+1, reply[i])
		}
		n[i] = v
	}
	set := known
	if len(reply) > bookNumbers {
		var err error
		if set, err = decodeSettings(reply[bookNumbers:]); err != nil {
			return booking{}, fmt.Errorf("book slots: %w", err)
		}
	}
	b := booking{
		now: n[0], epoch: n[1],
		schedule: schedule{given: n[2], base: n[3], n: n[4], floor: n[5], units: n[6], period: n[7], debt: n[8]},
		wait:     duration(n[9]),
		fence:    fence(n[10]),
		quiet:    n[11],
		settings: set,
	}
	if b.schedule.units < 1 || b.schedule.period < 1 {
		return booking{}, fmt.Errorf("book slots: %w: pace %d/%d", errReply, b.schedule.units, b.schedule.period)
	}
	return b, nil
}

// settingsFields are the settings' fields in the limit's hash, in the order of
// NUMBERS and WORDS in limit.lua.
func settingsFields() []string {
	return []string{
		"changed", "revision", "cap", "window", "burst", "guard", "lateness", "horizon", "units", "period", "paused",
		"until", "max_cap", "max_step", "reserve", "max_nodes", "from", "was", "by", "why",
	}
}

// encodeSettings is in the order of NUMBERS and WORDS in limit.lua.
func encodeSettings(s Settings) []any {
	units, period := s.Pace()
	return []any{
		micros(s.Changed), s.Revision, s.Cap, s.Window.Microseconds(), s.Burst, s.Guard.Microseconds(),
		s.Lateness.Microseconds(), s.Horizon.Microseconds(), units, period, flag(s.Paused),
		micros(s.Until), s.MaxCap, s.MaxStep, s.Reserve, s.MaxNodes, micros(s.from),
		encodeTerms(s), s.By, s.Why,
	}
}

// decodeSettings reads what encodeSettings wrote, as a script returns it or as
// HMGET does.
func decodeSettings(list []any) (Settings, error) {
	var n [settingsNumbers]int64
	for i := range n {
		switch v := list[i].(type) {
		case int64:
			n[i] = v
		case string:
			var err error
			if n[i], err = strconv.ParseInt(v, 10, 64); err != nil {
				return Settings{}, fmt.Errorf("%w: setting %d is %q", errReply, i+1, v)
			}
		default:
			return Settings{}, fmt.Errorf("%w: setting %d is %T", errReply, i+1, v)
		}
	}
	was, _ := list[settingsNumbers].(string)
	by, _ := list[settingsNumbers+1].(string)
	why, _ := list[settingsNumbers+2].(string)
	s := Settings{
		Terms: Terms{Contract: Contract{
			Cap: n[2], Window: duration(n[3]), Burst: n[4], Guard: duration(n[5]), Lateness: duration(n[6]), Horizon: duration(n[7]),
			Reserve: n[14], MaxNodes: n[15],
		}, Paused: n[10] == 1},
		Rails:   Rails{MaxCap: n[12], MaxStep: n[13]},
		Changed: fromMicros(n[0]), Revision: n[1], Until: fromMicros(n[11]), By: by, Why: why, from: fromMicros(n[16]),
	}
	if was == "" {
		return s, nil
	}
	var err error
	s.Was, err = decodeTerms(was, s.Contract)
	return s, err
}

// encodeTerms is what an override returns to, in the order of TERMS in
// limit.lua; empty where there is no override.
func encodeTerms(s Settings) string {
	if s.Until.IsZero() && s.Was == (Terms{}) {
		return ""
	}
	words := make([]string, 0, termsNumbers)
	for _, v := range termsOf(s.Was) {
		words = append(words, fmt.Sprint(v))
	}
	return strings.Join(words, " ")
}

func termsOf(t Terms) []any {
	units, period := t.Pace()
	return []any{
		t.Cap, t.Window.Microseconds(), t.Burst, t.Guard.Microseconds(), t.Lateness.Microseconds(), t.Horizon.Microseconds(),
		units, period, flag(t.Paused),
	}
}

// decodeTerms reads terms; what operators don't change is as in like.
func decodeTerms(word string, like Contract) (Terms, error) {
	fields := strings.Fields(word)
	if len(fields) != termsNumbers {
		return Terms{}, fmt.Errorf("%w: terms are %q", errReply, word)
	}
	var n [termsNumbers]int64
	for i, f := range fields {
		v, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return Terms{}, fmt.Errorf("%w: terms are %q", errReply, word)
		}
		n[i] = v
	}
	like.Cap, like.Window, like.Burst, like.Guard = n[0], duration(n[1]), n[2], duration(n[3])
	like.Lateness, like.Horizon = duration(n[4]), duration(n[5])
	return Terms{Contract: like, Paused: n[8] == 1}, nil
}

// change is configure.lua's reply.
type change struct {
	status   int64
	changed  time.Time
	revision int64
	until    time.Time
}

const (
	changeDone int64 = iota
	changeUnknown
	changeConflict
)

// runConfigure makes to the settings in force, if those expected still are.
// lasts is how long an override lasts, 0 where there is none, and negative where
// the one that is on goes on.
func (s scripts) runConfigure(ctx context.Context, expected time.Time, to Settings, lasts time.Duration) (change, error) {
	us := lasts.Microseconds()
	if lasts < 0 {
		us = -1
	}
	args := append([]any{micros(expected), to.By, to.Why, us, encodeTerms(to), to.MaxCap, to.MaxStep}, termsOf(to.Terms)...)
	n, err := s.configure.Run(ctx, s.rdb, []string{s.keys.limit, s.keys.history}, args...).Int64Slice()
	if err != nil {
		return change{}, fmt.Errorf("change settings: %w", err)
	}
	if len(n) != 4 {
		return change{}, fmt.Errorf("change settings: %w: %d values", errReply, len(n))
	}
	return change{status: n[0], changed: fromMicros(n[1]), revision: n[2], until: fromMicros(n[3])}, nil
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
