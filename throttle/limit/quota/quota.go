package quota

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"dispatcher/internal/fault"
)

// Quota makes a gate a counter: a value of its key may use the cap as fast as the other limits
// allow, and then no more until the window is over. The zero Quota is none.
type Quota struct {
	Calendar string        `yaml:"calendar" json:"calendar,omitempty"` // one of [Calendars]: the window of the quota; empty: none
	Zone     string        `yaml:"zone" json:"zone,omitempty"`         // of the calendar, such as Europe/Berlin; empty: UTC
	Rolling  time.Duration `yaml:"rolling" json:"rolling,omitempty"`   // the length of a window that begins anywhere; 0: none
	OnLost   string        `yaml:"on_lost" json:"on_lost,omitempty"`   // with a key
}

// What happens to a quota with a key whose counts Redis has lost: no node remembers those of
// all values. Without a key the nodes remember the count, and there is no choice.
const (
	LostWait = "wait" // nothing is granted until the window is over
	LostOpen = "open" // the counts begin again: a window may hold the whole cap once more for each loss
)

// Calendars are the windows of a calendar quota, and how long each is at most.
var Calendars = map[string]time.Duration{"minute": time.Minute, "hour": time.Hour, "day": 25 * time.Hour, "month": MaxWindow} //nolint:gochecknoglobals // a constant table

// MaxWindow is the longest window of any limit.
const MaxWindow = 31 * 24 * time.Hour

const (
	// Parts are the parts of a rolling window that are counted apart. A part counts until
	// all of it has left the window and the guard, so 64 of 65 of the cap are used of a long one.
	// reserve/quotas.lua has the same number.
	Parts = 64

	minRolling = time.Second // below that a part is not much longer than the guard
)

// IsQuota reports whether there is one.
func (q Quota) IsQuota() bool { return q.Calendar != "" || q.Rolling != 0 }

// WindowLength is that of the window, at most.
func (q Quota) WindowLength() time.Duration { return cmp.Or(q.Rolling, Calendars[q.Calendar]) }

// Validate refuses a quota that can't be counted, with a [fault.Error] for each setting.
func (q Quota) Validate() error {
	var faults fault.List
	if q.Calendar != "" {
		faults.OneOf("calendar", q.Calendar, "minute", "hour", "day", "month")
		faults.Refuse(q.Rolling != 0, "rolling", q.Rolling, "must be 0 with a calendar: state one of them")
		_, err := zoneNamed(q.Zone)
		faults.Refuse(err != nil, "zone", q.Zone, "is no time zone that this program knows; state one such as Europe/Berlin, or leave it empty for UTC")
	} else {
		faults.Refuse(q.Zone != "", "zone", q.Zone, "is for a calendar only: leave it out")
		if q.Rolling != 0 {
			faults.Between("rolling", q.Rolling, minRolling, MaxWindow)
		}
	}
	faults.OneOf("on_lost", cmp.Or(q.OnLost, LostWait), LostWait, LostOpen)
	faults.Refuse(!q.IsQuota() && q.OnLost != "", "on_lost", q.OnLost, "is for a quota: state calendar or rolling, or leave it out")
	return faults.Err()
}

// Bounds are when the windows around a time begin and end, rising: the window before, that of
// now, the next one. A rolling quota, and one of a zone that this program does not know, has
// none.
func (q Quota) Bounds(now time.Time) []time.Time {
	zone, err := zoneNamed(q.Zone)
	if q.Calendar == "" || err != nil {
		return nil
	}
	begin := q.begin(now.In(zone))
	end := q.end(begin)
	return []time.Time{q.begin(begin.Add(-time.Microsecond)), begin, end, q.end(end)}
}

// zones are those that were used, by name: each call to Redis asks for some, and the library
// reads a file each time.
var zones sync.Map //nolint:gochecknoglobals // zones are the same for all

func zoneNamed(name string) (*time.Location, error) {
	if zone, ok := zones.Load(name); ok {
		return zone.(*time.Location), nil
	}
	zone, err := time.LoadLocation(name)
	if err == nil {
		zones.Store(name, zone)
	}
	return zone, err
}

// Begins is when the window begins that ends at a time, or that the calendar has then.
func (q Quota) Begins(now time.Time) time.Time {
	if b := q.Bounds(now); b != nil {
		return b[1]
	}
	return now.Add(-q.Rolling)
}

// begin is when the window of a time begins.
func (q Quota) begin(t time.Time) time.Time {
	switch q.Calendar {
	case "minute":
		return t.Add(-time.Duration(t.Second())*time.Second - time.Duration(t.Nanosecond()))
	case "hour":
		return t.Add(-time.Duration(t.Minute())*time.Minute - time.Duration(t.Second())*time.Second - time.Duration(t.Nanosecond()))
	case "day":
		return midnight(t.Year(), t.Month(), t.Day(), t.Location())
	default:
		return midnight(t.Year(), t.Month(), 1, t.Location())
	}
}

// end is when a window is over that begins at a time.
func (q Quota) end(begin time.Time) time.Time {
	switch q.Calendar {
	case "minute":
		return begin.Add(time.Minute)
	case "hour":
		return begin.Add(time.Hour)
	case "day":
		return midnight(begin.Year(), begin.Month(), begin.Day()+1, begin.Location())
	default:
		return midnight(begin.Year(), begin.Month()+1, 1, begin.Location())
	}
}

// midnight is the first time of a day. Where clocks change at midnight there may be no 0:00,
// or two.
func midnight(year int, month time.Month, day int, zone *time.Location) time.Time {
	t := time.Date(year, month, day, 0, 0, 0, 0, zone)
	noon := time.Date(year, month, day, 12, 0, 0, 0, zone)
	for t.Day() != noon.Day() {
		t = t.Add(15 * time.Minute)
	}
	return t
}

// Used is how many units count at a time, of a state as Redis holds it: "window:granted:returned"
// for each window. reserve/quotas.lua has the same rule.
func (q Quota) Used(state string, now time.Time) (units int64) {
	var begin int64
	if b := q.Bounds(now); b != nil {
		begin = b[1].UnixMicro()
	} else if q.Rolling > 0 {
		begin = q.part(now.Add(-q.Rolling))
	}
	for _, w := range windowsOf(state) {
		if w.number == begin || q.Rolling > 0 && w.number > begin {
			units += w.granted - w.returned
		}
	}
	return units
}

// part is the number of the part of a rolling window that a time lies in.
func (q Quota) part(t time.Time) int64 {
	return t.UnixMicro() / ((q.Rolling.Microseconds() + Parts - 1) / Parts)
}

// window is a window of a state: "number:granted:returned". Both counts only grow.
type window struct{ number, granted, returned int64 }

// windowsOf reads a state, oldest window first. What is no window is left out.
func windowsOf(state string) (all []window) {
	for word := range strings.FieldsSeq(state) {
		number, counts, _ := strings.Cut(word, ":")
		granted, returned, _ := strings.Cut(counts, ":")
		n, errNumber := strconv.ParseInt(number, 10, 64)
		g, errGranted := strconv.ParseInt(granted, 10, 64)
		r, errReturned := strconv.ParseInt(returned, 10, 64)
		if errNumber == nil && errGranted == nil && errReturned == nil {
			all = append(all, window{n, g, r})
		}
	}
	return all
}

// Remember is what a node remembers of a quota that remembered one state and is shown another.
// A Redis that lost some units shows fewer of a window, or lacks the newest one. They stay
// remembered until Redis has learned them again. No slot lies behind latest on Redis's clock. Parts of a rolling
// window that do were counted before that clock was set back; Redis counts them as the newest part.
func (q Quota) Remember(remembered, shown string, latest time.Time) string {
	now := windowsOf(shown)
	for _, old := range windowsOf(remembered) {
		if q.Rolling > 0 && old.number > q.part(latest) {
			continue
		}
		i := slices.IndexFunc(now, func(w window) bool { return w.number >= old.number })
		switch {
		case i < 0: // newer than all that Redis has
			now = append(now, old)
		case now[i].number == old.number && now[i].granted < old.granted:
			now[i] = old
		}
	}
	words := make([]string, len(now))
	for i, w := range now {
		words[i] = fmt.Sprintf("%d:%d:%d", w.number, w.granted, w.returned)
	}
	return strings.Join(words, " ")
}
