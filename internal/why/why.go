package why

import (
	"errors"
	"fmt"
	"time"
)

// MostAsked is how many bytes the name or the expression of a question has at most.
const MostAsked = mostQuestion / 2

// MostJobs is how many jobs an answer names at most.
const MostJobs = 20

const (
	mostQuestion = 4 << 10  // bytes
	mostAnswer   = 64 << 10 // likewise
)

// Question asks about a job or about a limit.
type Question struct {
	ID    string `json:"id"`              // of the question; [Ask] sets it
	Job   string `json:"job,omitempty"`   // the job's id, or topic/partition/offset
	Limit string `json:"limit,omitempty"` // the limit's name
	When  string `json:"when,omitempty"`  // an expression: how many jobs is it true for?
}

func (q Question) validate() error {
	switch {
	case (q.Job == "") == (q.Limit+q.When == ""), q.Limit != "" && q.When != "":
		return errors.New("a question names a job, a limit or an expression")
	case len(q.Job)+len(q.Limit)+len(q.When) > MostAsked:
		return fmt.Errorf("a question has %d bytes at most", MostAsked)
	}
	return nil
}

// Answer is what one node knows.
type Answer struct {
	Node     string    `json:"node"`
	Jobs     []Job     `json:"jobs,omitempty"`     // that it holds
	Progress *Progress `json:"progress,omitempty"` // absent: it does not work the partition, or the question names none
	Limit    *Limit    `json:"limit,omitempty"`    // absent: the question names none, or the node does not know it
	Matching *Matching `json:"matching,omitempty"` // likewise
}

// Job is a job that a node holds.
type Job struct {
	ID        string     `json:"id"`
	Topic     string     `json:"topic"`
	Partition int        `json:"partition"`
	Offset    int64      `json:"offset"`
	Lane      string     `json:"lane"`
	WaitsFor  string     `json:"waits_for"`       // one of consumer.WaitsFor but turn; for that, what holds up all that are ready
	Text      string     `json:"waits_for_text"`  // WaitsFor in words, such as "a slot"
	Why       string     `json:"why"`             // the cause and its time, in words
	Until     *time.Time `json:"until,omitempty"` // when the wait ends, as far as is known; absent: not known
	Limit     string     `json:"limit,omitempty"` // that it waits for
	Ahead     int        `json:"ahead,omitempty"` // jobs of its lane that go before it on this node
	Calls     int        `json:"calls,omitempty"` // so far
	Behind    *Job       `json:"behind,omitempty"`
}

// Progress says how far the partition of a job has come.
type Progress struct {
	Settled bool   `json:"settled"` // the job is over, or its record holds none
	Fetched int64  `json:"fetched"` // offset behind the last record that was fetched
	End     int64  `json:"end"`     // of the log, likewise
	Text    string `json:"text"`    // where the record is, in words, such as "is not fetched yet: it is the next"
}

// Matching counts the jobs for which an expression is true, among those that were fetched and are not settled.
type Matching struct {
	Jobs   int `json:"jobs"`
	Failed int `json:"failed"` // the expression fails on them
	Held   int `json:"held"`   // jobs of the node in all
}

// Limit is a limit as one node sees it.
type Limit struct {
	Waiting int     `json:"waiting"` // jobs of the node that wait for it
	Binds   float64 `json:"binds"`   // share of the last half minute in which some did
	Why     string  `json:"why"`     // for people; empty: it grants units as its contract says
}
