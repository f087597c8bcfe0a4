package feedback

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

// Reply is the fleet's answer to a report.
type Reply struct {
	Now      int64          // Redis's clock, µs since 1970
	Slowdown limit.Slowdown // in force
	Decides  bool           // this node is to decide what follows the slowdown
	Nodes    []Counts       // of all nodes, where it is
}

// Send reports these counts once.
func (c Counts) Send(ctx context.Context, s script.Scripts) (Reply, error) {
	h, err := s.Feedback(ctx, script.Feedback{Number: c.Number, Report: c.String()})
	if err != nil {
		return Reply{}, err
	}
	reply := Reply{Now: h.Now, Slowdown: h.Slowdown, Decides: len(h.Reports) > 0}
	for _, text := range h.Reports {
		// A report about another slowdown, or one that can't be read, counts as nothing.
		if one, ok := readCounts(text); ok && one.Number == c.Number {
			reply.Nodes = append(reply.Nodes, one)
		}
	}
	return reply, nil
}

// Write replaces the slowdown of that number, for the fleet, and returns the one in force. That is another one
// where another node was faster.
func (d Decision) Write(ctx context.Context, s script.Scripts, number int64, by string) (limit.Slowdown, error) {
	f := script.Feedback{Number: number, Next: d.Next.Pack(), Event: d.Event, By: by}
	if d.Next.IsZero() {
		f.Next = "end"
	}
	h, err := s.Feedback(ctx, f)
	return h.Slowdown, err
}

// String are the counts as Redis holds them: "number calls refused_calls made refused
// asked_us span_us".
func (c Counts) String() string {
	return fmt.Sprintf("%d %d %d %d %d %d %d", c.Number, c.Calls, c.RefusedCalls, c.Made, c.Refused, c.Asked.Microseconds(), c.Span.Microseconds())
}

// readCounts reads what String wrote.
func readCounts(text string) (c Counts, ok bool) {
	words := strings.Fields(text)
	var n [7]int64
	if len(words) != len(n) {
		return c, false
	}
	for i, w := range words {
		v, err := strconv.ParseInt(w, 10, 64)
		if err != nil || v < 0 || v > 1<<53 {
			return c, false
		}
		n[i] = v
	}
	most := int64(time.Hour / time.Microsecond)
	return Counts{
		Number: n[0], Calls: n[1], RefusedCalls: n[2], Made: n[3], Refused: n[4],
		Asked: time.Duration(min(n[5], most)) * time.Microsecond, Span: time.Duration(min(n[6], most)) * time.Microsecond,
	}, true
}
