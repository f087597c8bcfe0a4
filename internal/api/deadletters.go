package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/dlq"
	"dispatcher/internal/fault"
	"dispatcher/internal/problem"
)

const (
	fewLetters  = 50
	mostLetters = 100
	scanFor     = timeout * 4 / 5 // of the dead letters, for one request
	maxScans    = 2               // at once: each reads whole topics
)

// DeadLetters lists open dead letters; package dlq has the only one.
type DeadLetters interface {
	List(ctx context.Context, f dlq.Filter, each func(*deadletter.Letter) error) (dlq.Tally, error)
}

// letterJSON is a dead letter without the job's key and payload, and without the provider's answer: they may hold a recipient.
type letterJSON struct {
	ID       string    `json:"id"`
	Class    string    `json:"class"`
	Code     string    `json:"code,omitempty"`
	Message  string    `json:"message,omitempty"`
	Attempts int       `json:"attempts"`
	FailedAt time.Time `json:"failed_at"`
	Origin   string    `json:"origin,omitempty"`
	Bytes    int64     `json:"bytes"` // of the value, before it was truncated
}

func newLetterJSON(l *deadletter.Letter) letterJSON {
	j := letterJSON{
		ID: l.ID.String(), Class: string(l.Class), Code: l.Code, Message: l.Message, Attempts: l.Attempts, FailedAt: l.FailedAt.UTC(),
		Bytes: max(int64(len(l.Record.Value)), l.OriginalSize),
	}
	if l.Origin.Topic != "" {
		j.Origin = l.Origin.String()
	}
	return j
}

// lettersJSON is a part of the open dead letters.
type lettersJSON struct {
	Letters   []letterJSON     `json:"letters"`
	Next      string           `json:"next,omitempty"` // go on from here, with ?after=; empty: there are no more
	Truncated bool             `json:"truncated"`      // time was over before all were read
	Read      int64            `json:"read"`           // open ones that were read, also those that the query does not pick
	Matched   int64            `json:"matched"`        // of them, those that it picks
	Classes   map[string]int64 `json:"classes"`        // those that were read, by class
}

// deadLetters lists open dead letters. It reads to the end also where the page is full, for the counts, but not for longer than
// [scanFor].
func (a *api) deadLetters(r *http.Request) (any, error) {
	if a.letters == nil {
		return nil, noSuchService("list dead letters")
	}
	f, err := a.letterQuery(r)
	if err != nil {
		return nil, err
	}
	select {
	case a.scans <- struct{}{}:
		defer func() { <-a.scans }()
	default:
		return nil, problem.Error{Status: http.StatusServiceUnavailable, Detail: "this node is reading dead letters for others; ask again in a few seconds, or ask another node"}
	}
	ctx, cancel := context.WithTimeout(r.Context(), scanFor)
	defer cancel()
	page := lettersJSON{Letters: []letterJSON{}, Classes: map[string]int64{}}
	tally, err := a.letters.List(ctx, f, func(l *deadletter.Letter) error {
		page.Letters = append(page.Letters, newLetterJSON(l))
		return nil
	})
	page.Truncated = err != nil && ctx.Err() != nil && r.Context().Err() == nil
	switch {
	case page.Truncated && tally.ReadTo.Topic == "":
		return nil, problem.Error{Status: http.StatusServiceUnavailable, Detail: "Kafka sent no dead letter within " + scanFor.String() + "; ask again, or see GET /readyz"}
	case err != nil && !page.Truncated:
		return nil, err
	}
	page.Read, page.Matched = tally.Open, tally.Matched
	for class, n := range tally.Classes {
		page.Classes[string(class)] = n
	}
	switch n := len(page.Letters); {
	case int64(n) < tally.Matched && n == f.Limit:
		page.Next = page.Letters[n-1].ID
	case page.Truncated:
		page.Next = tally.ReadTo.String()
	}
	return page, nil
}

// letterQuery reads ?topic=&class=&since=&limit=&after=.
func (a *api) letterQuery(r *http.Request) (f dlq.Filter, err error) {
	q := r.URL.Query()
	f.Topics = a.Config.Kafka.JobTopics()
	if topic := q.Get("topic"); topic != "" {
		if f.Topics, err = a.jobTopic(topic); err != nil {
			return f, err
		}
	}
	var names []string
	for _, text := range q["class"] {
		names = append(names, strings.Split(text, ",")...)
	}
	if f.Classes, err = classesOf(names); err != nil {
		return f, err
	}
	if f.Since, err = sinceOf(q.Get("since"), time.Now()); err != nil {
		return f, err
	}
	if after := q.Get("after"); after != "" {
		if f.After, err = deadletter.ParseRecordID(after); err != nil {
			return f, fault.New("after", after, "must be next of the page before, such as jobs.dlq/3/1042")
		}
	}
	f.Limit, err = within(r, "limit", fewLetters, mostLetters)
	return f, err
}

// jobTopic is a topic of this node's jobs: the API reads no others.
func (a *api) jobTopic(topic string) ([]string, error) {
	all := a.Config.Kafka.JobTopics()
	if !slices.Contains(all, topic) {
		return nil, fault.New("topic", topic, "must be one of "+strings.Join(all, ", "))
	}
	return []string{topic}, nil
}

func classesOf(names []string) (classes []deadletter.Class, err error) {
	for _, name := range names {
		c := deadletter.Class(name)
		if all := deadletter.Classes(); !slices.Contains(all, c) {
			var known []string
			for _, c := range all {
				known = append(known, string(c))
			}
			return nil, fault.New("class", name, "must be one of "+strings.Join(known, ", "))
		}
		classes = append(classes, c)
	}
	return classes, nil
}

// sinceOf reads a time, or how long ago it is.
func sinceOf(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	ago, err := time.ParseDuration(text)
	if err != nil || ago <= 0 {
		return time.Time{}, fault.New("since", text, "must be a time such as 2026-11-30T18:00:00Z, or how long ago, such as 2h")
	}
	return now.Add(-ago), nil
}

// noSuchService says that this node can't do something.
func noSuchService(what string) error {
	return problem.Error{Status: http.StatusNotFound, Detail: "this node does not " + what}
}
