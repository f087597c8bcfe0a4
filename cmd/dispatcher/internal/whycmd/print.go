package whycmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/internal/why"
)

// empty tells whether the report answers nothing.
func (r *report) empty() bool {
	return r.Asked.Limit != "" && len(r.Limit) == 0 || r.Asked.Job != "" && len(r.Jobs) == 0 && r.Progress == nil && r.Dead == nil
}

// unknown is why the report answers nothing, or not all; nil: it does.
func (r *report) unknown() error {
	switch {
	case r.empty():
	case r.Unsearched != "":
		return fmt.Errorf("not all dead letters were searched: %s", r.Unsearched)
	default:
		return nil
	}
	if len(r.Silent) > 0 {
		return fmt.Errorf("no node that answered knows %s, and %s did not answer", cli.Quoted(r.Asked.Job+r.Asked.Limit), strings.Join(r.Silent, ", "))
	}
	if r.Asked.Limit != "" {
		return fmt.Errorf("no node keeps the limit %s; the nodes have another configuration", r.Asked.Limit)
	}
	return r.neverFound()
}

func (r *report) show(w io.Writer) error {
	var err error
	for _, one := range r.Jobs {
		err = errors.Join(err, showJob(one, w))
	}
	switch {
	case r.Dead != nil:
		err = errors.Join(err, cli.PrintLine(w, r.Dead.show(r.Asked.Job)))
	case len(r.Jobs) == 0 && r.Progress != nil:
		err = errors.Join(err, cli.PrintLine(w, r.whereabouts()))
	}
	err = errors.Join(err, showLimit(r.Report, w))
	if len(r.Silent) > 0 && !r.empty() {
		err = errors.Join(err, cli.PrintLine(w, "did not answer: "+strings.Join(r.Silent, ", ")))
	}
	return err
}

func showJob(j why.JobOf, w io.Writer) error {
	_, err := fmt.Fprintf(w, "job %s at %s/%d/%d on %s waits for %s: %s\n",
		cli.Plainly(j.ID, 0), cli.Plainly(j.Topic, 0), j.Partition, j.Offset, j.Node, cli.Plainly(cmp.Or(j.Text, j.WaitsFor), 0), cli.Plainly(j.Why, 0))
	return err
}

// whereabouts says where a record is that no node holds as a job.
func (r *report) whereabouts() string {
	text := fmt.Sprintf("%s %s (%s works its partition)", cli.Plainly(r.Asked.Job, 0), cli.Plainly(r.Progress.Text, 0), r.Progress.Node)
	if r.Progress.Settled && r.Unsearched == "" {
		text += "; no open dead letter is of it"
	}
	return text
}

func showLimit(r why.Report, w io.Writer) error {
	if len(r.Limit) == 0 {
		return nil
	}
	all, most, note := 0, 0.0, ""
	for _, one := range r.Limit {
		all, most = all+one.Waiting, max(most, one.Binds)
		if note == "" {
			note = one.Why
		}
	}
	_, _ = fmt.Fprintf(w, "limit %s: %s for it; on the node where it was most, some did for %.0f %% of the last half minute\n", r.Asked.Limit, waiting(all), 100*most)
	if note != "" {
		_, _ = fmt.Fprintf(w, "  %s\n", cli.Plainly(note, 0))
	}
	table := cli.Table(w)
	for _, one := range r.Limit {
		_, _ = fmt.Fprintf(table, "  %s\t%s\t%.0f %%\n", one.Node, waiting(one.Waiting), 100*one.Binds)
	}
	return table.Flush()
}

func waiting(jobs int) string {
	if jobs == 1 {
		return "1 job waits"
	}
	return fmt.Sprintf("%d jobs wait", jobs)
}
