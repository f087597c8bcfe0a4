// Package audit reads what scripts have written down for people (note_event of lua/events.lua): what happened, when, and who
// did it. It also bounds the reasons that people give.
//
// It writes nothing, and starts no goroutine.
package audit

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"dispatcher/internal/fault"
)

// Event is what happened.
type Event struct {
	At   time.Time `json:"at"` // by Redis's clock
	Text string    `json:"event"`
	By   string    `json:"by"`
}

// Read returns the last n events of a stream, the newest first. Redis keeps about a thousand.
func Read(ctx context.Context, rdb redis.UniversalClient, stream string, n int) ([]Event, error) {
	entries, err := rdb.XRevRangeN(ctx, stream, "+", "-", int64(n)).Result()
	if err != nil {
		return nil, err
	}
	events := make([]Event, len(entries))
	for i, e := range entries {
		ms, _, _ := strings.Cut(e.ID, "-")
		at, err := strconv.ParseInt(ms, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s is no time", e.ID)
		}
		text, _ := e.Values["event"].(string)
		by, _ := e.Values["by"].(string)
		events[i] = Event{At: time.UnixMilli(at), Text: text, By: by}
	}
	return events, nil
}

// MostWhy is how many characters a reason has at most.
const MostWhy = 200

// CheckWhy returns the fault of a reason that is too long, or that has control characters.
func CheckWhy(why string) error {
	if n := utf8.RuneCountInString(why); n > MostWhy {
		return fault.New("why", n, "must have at most "+strconv.Itoa(MostWhy)+" characters")
	}
	return fault.Plain("why", why)
}

// MostBy is how many characters the name of who makes a change has at most.
const MostBy = 100

// CheckBy returns the fault of a name of who makes a change that is too long, or that has control characters.
func CheckBy(by string) error {
	if n := utf8.RuneCountInString(by); n > MostBy {
		return fault.New("by", n, "must have at most "+strconv.Itoa(MostBy)+" characters")
	}
	return fault.Plain("by", by)
}

// Because is a reason at the end of an event; empty: there is none.
func Because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}
