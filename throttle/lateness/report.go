package lateness

import (
	"context"
	"strconv"
	"strings"
	"time"

	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/internal/script"
)

// Move is a change of the lateness that the reporting node has just made.
type Move string

// The moves.
const (
	MovedNot  Move = ""
	MovedUp   Move = "rose"
	MovedDown Move = "fell"
)

// Report is one call of lateness.lua. A report of a move has no counts.
type Report struct {
	Counts   Counts
	Moved    Move
	Patience time.Duration // with MovedUp
	Trips    Trips         // to the provider
}

// Reply is the fleet's answer to a report.
type Reply struct {
	Now      int64 // Redis's clock, µs since 1970
	Chooses  bool  // this node is to choose the lateness
	Evidence Evidence
	Fell     time.Duration // ago; negative: never
	Trips    RoundTrips    // of the fleet, where this node is to choose
}

// Send reports once.
func (r Report) Send(ctx context.Context, s script.Scripts) (Reply, error) {
	words := make([]string, len(r.Counts))
	for i, n := range r.Counts {
		words[i] = strconv.FormatInt(n, 10)
	}
	n, fields, err := s.Lateness(ctx, strings.Join(words, " "), string(r.Moved), r.Patience, r.Trips.String())
	if err != nil {
		return Reply{}, err
	}
	reply := Reply{Now: n[0], Chooses: len(fields) > 0, Fell: -1}
	if n[3] > 0 {
		reply.Fell = clock.Duration(n[0] - n[3])
	}
	reply.Evidence = Evidence{Since: clock.Duration(n[0] - n[1]), Patience: max(clock.Duration(n[2]), LeastPatience)}
	if reply.Chooses {
		reply.readFields(fields)
	}
	return reply, nil
}

// How many of the counts are kept; lateness.lua knows the same numbers.
const (
	keptSeconds = 8
	keptTens    = 32
)

// readFields reads the fields of the hash. A field that can't be read counts as nothing.
func (r *Reply) readFields(fields []any) {
	second := r.Now / time.Second.Microseconds()
	e := &r.Evidence
	e.Seconds, e.Tens = make([]Counts, keptSeconds), make([]Counts, keptTens)
	trips := map[string]string{}
	for i := 0; i+1 < len(fields); i += 2 {
		name, _ := fields[i].(string)
		text, _ := fields[i+1].(string)
		trips[name] = text
		number, counts, ok := readCounts(text)
		if !ok || name == "" {
			continue
		}
		switch name[0] {
		case 's':
			put(e.Seconds, second-number, counts)
		case 't':
			put(e.Tens, second/10-number, counts)
		}
	}
	r.Trips = ReadRoundTrips(trips, r.Now)
}

func put(list []Counts, ago int64, c Counts) {
	if ago >= 0 && ago < int64(len(list)) {
		list[ago] = c
	}
}

// readCounts reads the number of a time, and the slots by class behind it.
func readCounts(text string) (number int64, c Counts, ok bool) {
	var n [1 + len(c)]int64
	if !readNumbers(text, n[:]) {
		return 0, c, false
	}
	return n[0], Counts(n[1:]), true
}

// readNumbers reads as many whole numbers as there are places for, none below 0. It
// reports whether the text holds just these.
func readNumbers(text string, into []int64) bool {
	words := strings.Fields(text)
	if len(words) != len(into) {
		return false
	}
	for i, w := range words {
		n, err := strconv.ParseInt(w, 10, 64)
		if err != nil || n < 0 {
			return false
		}
		into[i] = n
	}
	return true
}
