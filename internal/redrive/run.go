package redrive

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/dlq"
	"dispatcher/internal/audit"
	"dispatcher/internal/fault"
	"dispatcher/internal/timetext"
)

// Bounds of the runs.
const (
	MostRuns  = 50               // that are kept
	LostAfter = 10 * time.Second // without a write; a write that far ahead is of a clock that was set back
	mostError = 500              // bytes
)

// Kind is what a run does with letters.
type Kind string

// The kinds.
const (
	Replay Kind = "replay" // writes their jobs to their topics again
	Drop   Kind = "drop"   // settles them, and nothing else
)

// State is how a run stands.
type State string

// The states. A run begins as running, and each other state is final.
const (
	Running State = "running"
	Done    State = "done"
	Stopped State = "stopped" // by an operator, or with its node
	Failed  State = "failed"
	Lost    State = "lost" // its node does not write any more
)

// Request is what an operator asks for. Without IDs, Classes and Since it picks all open letters of the topic.
type Request struct {
	Kind    Kind
	Topic   string // the source topic
	IDs     []deadletter.RecordID
	Classes []deadletter.Class
	Since   time.Time // failed then or later; zero: at any time
	Rate    float64   // jobs a second; 0: no bound
	By, Why string
}

// Validate returns the faults of a request.
func (r *Request) Validate() error {
	var l fault.List
	l.OneOf("kind", string(r.Kind), string(Replay), string(Drop))
	l.Refuse(r.Topic == "", "topic", r.Topic, "is needed")
	l.Refuse(r.Kind == Drop && r.Rate != 0, "rate", r.Rate, "is for a replay: leave it out")
	l.Under("", dlq.CheckRate(r.Rate))
	l.Refuse(len(r.IDs) > 0 && (len(r.Classes) > 0 || !r.Since.IsZero()), "ids", fault.Entries(len(r.IDs)), "name single letters: leave out class and since")
	l.Under("", audit.CheckWhy(r.Why))
	return l.Err()
}

// filter picks the letters of a request.
func (r *Request) filter() dlq.Filter {
	return dlq.Filter{Topics: []string{r.Topic}, IDs: r.IDs, Classes: r.Classes, Since: r.Since}
}

// Run is a replay or a drop in the background. Done and Left are parts of Matched.
type Run struct {
	ID      string             `json:"id"`
	Kind    Kind               `json:"kind"`
	Topic   string             `json:"topic"`
	IDs     int                `json:"ids,omitempty"` // how many letters were named
	Classes []deadletter.Class `json:"class,omitempty"`
	Since   time.Time          `json:"since,omitzero"`
	Rate    float64            `json:"rate"` // jobs a second; 0: no bound
	By      string             `json:"by"`
	Why     string             `json:"why,omitempty"`
	Node    string             `json:"node"`

	State     State     `json:"state"`
	Started   time.Time `json:"started"`
	Ended     time.Time `json:"ended,omitzero"`
	StoppedBy string    `json:"stopped_by,omitempty"` // who asked for it; set also while the run still goes on
	Error     string    `json:"error,omitempty"`

	Progress
}

// Progress is how far a run is.
type Progress struct {
	Matched int64    `json:"matched"` // open letters that were read and that the run is about
	Done    int64    `json:"done"`    // replayed or dropped
	Left    int64    `json:"left"`    // read, and not settled: truncated, without a topic, refused by Kafka or out of reach
	Settled int64    `json:"settled_before"`
	Missing int64    `json:"missing"` // named, and not a letter
	Read    int64    `json:"read"`    // offsets
	ToRead  int64    `json:"to_read"` // offsets in all; may grow
	Notes   []string `json:"notes,omitempty"`
}

// count takes the numbers of a tally over.
func (p *Progress) count(t *dlq.Tally) {
	p.Matched, p.Done, p.Left = t.Matched, t.Done, t.Truncated+t.NoTopic+t.Unwritten+t.OutOfReach
	p.Settled, p.Missing = int64(len(t.Settled)), int64(len(t.Missing))
	const few = 5
	p.Notes = t.Notes[:min(few, len(t.Notes))]
}

// begun is the run of a request on a node.
func (r *Request) begun(node string) Run {
	return Run{
		Kind: r.Kind, Topic: r.Topic, IDs: len(r.IDs), Classes: r.Classes, Since: r.Since, Rate: r.Rate, By: r.By, Why: r.Why,
		Node: node, State: Running,
	}
}

// text describes what a run does, for the history.
func (r *Run) text() string {
	letters := "all letters"
	var parts []string
	if len(r.Classes) > 0 {
		names := make([]string, len(r.Classes))
		for i, c := range r.Classes {
			names[i] = string(c)
		}
		parts = append(parts, "class "+strings.Join(names, ", "))
	}
	if !r.Since.IsZero() {
		parts = append(parts, "since "+timetext.Stamp(r.Since))
	}
	switch {
	case r.IDs > 0:
		letters = strconv.Itoa(r.IDs) + " named letters"
	case len(parts) > 0:
		letters = "letters of " + strings.Join(parts, " and ")
	}
	text := fmt.Sprintf("%s %s of topic %s", r.Kind, letters, r.Topic)
	if r.Rate > 0 {
		text += fmt.Sprintf(" at %g jobs a second", r.Rate)
	}
	return text
}

// endText says how a run ended, for the history.
func (r *Run) endText() string {
	text := fmt.Sprintf("%s ended, %s: %d of %d letters", r.ID, r.State, r.Done, r.Matched)
	return text + audit.Because(r.Error)
}
