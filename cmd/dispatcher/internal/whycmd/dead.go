package whycmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/configs"
	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/dlq"
	"dispatcher/internal/timetext"
	"dispatcher/internal/why"
)

// letter is an open dead letter, or a parked job, in JSON.
type letter struct {
	ID       string `json:"id"` // of its record
	Class    string `json:"class"`
	Code     string `json:"code,omitempty"`
	Message  string `json:"message,omitempty"`
	Attempts int    `json:"attempts"`
	FailedAt string `json:"failed_at"`
}

// report is what the nodes said and, where none of them holds the job, what became of it.
type report struct {
	why.Report

	Dead       *letter `json:"dead_letter,omitempty"`
	Unsearched string  `json:"unsearched,omitempty"` // why not all dead letters were searched; empty: they were, or need not be
}

// mayBeDead tells whether the job is over, as far as the nodes know that answered.
func (r *report) mayBeDead() bool {
	return r.Asked.Job != "" && len(r.Jobs) == 0 && (r.Progress == nil || r.Progress.Settled)
}

// errFound ends a search.
var errFound = errors.New("found")

// search searches the open dead letters, and the parked jobs, for a job: by its id, or by its place. The error says why it did not
// search all of them.
func (r *report) search(cmd *cobra.Command, s *cli.Settings) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
	defer cancel()
	cfg, conn, err := s.Kafka(cmd)
	if err != nil {
		return err
	}
	client, err := dlq.New(dlq.Options{Connection: conn, Group: cfg.Kafka.Group, JobTopics: cfg.Kafka.JobTopics()})
	if err != nil {
		return err
	}
	kinds := []bool{false}
	if cfg.Sender.OnUnknown == configs.UnknownPark {
		kinds = append(kinds, true)
	}
	for _, parked := range kinds {
		_, err = client.List(ctx, dlq.Filter{Topics: cfg.Kafka.JobTopics(), Parked: parked}, func(l *deadletter.Letter) error {
			if l.JobID != r.Asked.Job && l.Origin.String() != r.Asked.Job {
				return nil
			}
			r.Dead = &letter{l.ID.String(), string(l.Class), l.Code, l.Message, l.Attempts, timetext.Exact(l.FailedAt)}
			return errFound
		})
		if err != nil {
			break
		}
	}
	switch {
	case errors.Is(err, errFound):
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("that took longer than %s", timeout)
	}
	return err
}

func (l *letter) show(job string) string {
	text := fmt.Sprintf("job %s is the dead letter %s: it failed at %s after %s, class %s", cli.Plainly(job, 0), l.ID, l.FailedAt, attempts(l.Attempts), cli.Plainly(l.Class, 0))
	if l.Code != "" {
		text += ", " + cli.Plainly(l.Code, 0)
	}
	if l.Message != "" {
		text += ": " + cli.Plainly(l.Message, 0)
	}
	return text
}

func attempts(n int) string {
	if n == 1 {
		return "1 call"
	}
	return fmt.Sprintf("%d calls", n)
}

// neverFound is the error for a job that no node holds and no dead letter is of.
func (r *report) neverFound() error {
	const text = "none of %d nodes holds the job %s%s: it is settled, is not fetched yet, or was never written; its topic/partition/offset tells which"
	if r.Unsearched != "" {
		return fmt.Errorf(text+". Not all dead letters were searched: %s", r.Nodes, cli.Quoted(r.Asked.Job), "", r.Unsearched)
	}
	return fmt.Errorf(text, r.Nodes, cli.Quoted(r.Asked.Job), ", and no open dead letter is of it")
}
