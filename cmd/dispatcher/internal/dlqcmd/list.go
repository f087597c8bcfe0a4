package dlqcmd

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/consumer/deadletter"
	"dispatcher/consumer/dlq"
	"dispatcher/internal/timetext"
)

// listPage is how many lines share their columns' widths, so that a long list is
// not kept in memory.
const listPage = 200

// letterState is a dead letter in JSON, without its payload. Key and key_hex exclude
// each other; a record without a key has neither.
type letterState struct {
	ID            string  `json:"id"`
	FailedAt      string  `json:"failed_at"`
	FirstFailedAt string  `json:"first_failed_at,omitempty"`
	Class         string  `json:"class"`
	Code          string  `json:"code,omitempty"`
	Message       string  `json:"message,omitempty"`
	Attempts      int     `json:"attempts"`
	Redrives      int     `json:"redrives"`
	Key           *string `json:"key,omitempty"`
	KeyHex        string  `json:"key_hex,omitempty"`
	Job           string  `json:"job"`
	Origin        string  `json:"origin,omitempty"`
	Node          string  `json:"node,omitempty"`
	Bytes         int     `json:"bytes"`
	Truncated     bool    `json:"truncated,omitempty"`
	OriginalBytes int64   `json:"original_bytes,omitempty"`
}

func newLetterState(l *deadletter.Letter) letterState {
	s := letterState{
		ID: l.ID.String(), FailedAt: timetext.Exact(l.FailedAt), FirstFailedAt: timetext.Exact(l.FirstFailedAt),
		Class: string(l.Class), Code: l.Code, Message: l.Message, Attempts: l.Attempts, Redrives: l.Redrives,
		Job: l.JobID, Origin: origin(l), Node: l.Node, Bytes: len(l.Record.Value), Truncated: l.Truncated, OriginalBytes: l.OriginalSize,
	}
	if l.Record.Key != nil {
		s.Key, s.KeyHex = asText(l.Record.Key)
	}
	return s
}

func origin(l *deadletter.Letter) string {
	if l.Origin.Topic == "" {
		return ""
	}
	return l.Origin.String()
}

func newListCommand(s *cli.Settings, asJSON *bool) *cobra.Command {
	var selected letterFlags
	cmd := &cobra.Command{
		Use: "list", Short: "List the open dead letters, without their payloads", Args: cobra.NoArgs,
		Long: "List the dead letters that are open when the command starts, without their payloads. With --json each line\n" +
			"is an object, and the total goes to standard error.",
		Example: "  dispatcher dlq list --reason exhausted --since 2h\n  dispatcher dlq list --json | jq -r .id",
	}
	selected.define(s, cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		client, cfg, _, err := clientOf(s, cmd)
		if err != nil {
			return err
		}
		f, err := selected.filter(cfg, nil, time.Now())
		if err != nil {
			return err
		}
		list := letterList{w: cmd.OutOrStdout(), asJSON: *asJSON}
		tally, err := client.List(cmd.Context(), f, list.add)
		if err = errors.Join(err, list.flush()); err != nil {
			return dlqError(cmd, err)
		}
		w := cmd.OutOrStdout()
		if *asJSON {
			w = cmd.ErrOrStderr()
		}
		return cli.PrintLine(w, strings.Join(append(notes(&tally), sumLine(&tally, f)), "\n"))
	}
	return cmd
}

// sumLine is the total under a list.
func sumLine(t *dlq.Tally, f dlq.Filter) string {
	text := fmt.Sprintf("%d of %d open dead letters match", t.Matched, t.Open)
	if t.Done < t.Matched {
		text += fmt.Sprintf(", the first %d are shown", t.Done)
	}
	if t.Matched == 0 && t.Open > 0 && len(f.Classes) > 0 {
		text += "; their classes are " + classes(t)
	}
	return text
}

func classes(t *dlq.Tally) string {
	var all []string
	for class, n := range t.Classes {
		name := cli.Plainly(string(class), 40)
		if name == "" {
			name = "none"
		}
		all = append(all, fmt.Sprintf("%s (%d)", name, n))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func notes(t *dlq.Tally) []string {
	lines := make([]string, len(t.Notes))
	for i, n := range t.Notes {
		lines[i] = "note: " + n
	}
	return lines
}

// letterList prints dead letters as they are read.
type letterList struct {
	w      io.Writer
	asJSON bool
	page   *tabwriter.Writer
	lines  int // of the page
}

func (l *letterList) add(x *deadletter.Letter) error {
	if l.asJSON {
		return cli.PrintJSON(l.w, newLetterState(x))
	}
	if l.page == nil {
		l.page = cli.Table(l.w)
		_, _ = fmt.Fprintln(l.page, "ID\tFAILED\tCLASS\tCODE\tATTEMPTS\tREDRIVES\tKEY\tJOB\tORIGIN\tMESSAGE")
	}
	message := x.Message
	if x.Truncated {
		message = "(truncated) " + message
	}
	_, _ = fmt.Fprintf(l.page, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\n", x.ID, timetext.Stamp(x.FailedAt),
		cli.Plainly(string(x.Class), 20), cli.Plainly(x.Code, 20), x.Attempts, x.Redrives, cli.TextOrHex(x.Record.Key, 40),
		cli.Plainly(x.JobID, 60), origin(x), cli.Plainly(message, 100))
	if l.lines++; l.lines < listPage {
		return nil
	}
	return l.flush()
}

func (l *letterList) flush() error {
	l.lines = 0
	if l.page == nil {
		return nil
	}
	return l.page.Flush()
}
