package dlqcmd

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/consumer/deadletter"
	"dispatcher/internal/timetext"
)

// How much of a value is shown. --raw writes all of it.
const (
	shownText = 64 << 10 // bytes of text
	shownHex  = 4 << 10  // bytes of anything else
)

// wholeLetter is a dead letter in JSON with its headers and its payload. It has
// either value or value_hex, unless the record has no value; a header likewise.
type wholeLetter struct {
	letterState
	Settled  bool          `json:"settled"`
	Headers  []headerState `json:"headers"`
	Value    *string       `json:"value,omitempty"`
	ValueHex string        `json:"value_hex,omitempty"`
}

type headerState struct {
	Name     string  `json:"name"`
	Value    *string `json:"value,omitempty"`
	ValueHex string  `json:"value_hex,omitempty"`
}

func newShowCommand(s *cli.Settings, asJSON *bool) *cobra.Command {
	var raw bool
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show one dead letter, with its headers and its payload", Args: cli.OneName("dead letter", "ID"),
		Long: "Show one dead letter, settled or not, with its headers and its payload: text as it is, other bytes in\n" +
			"hexadecimal. A long payload is shown in part.",
		Example: "  dispatcher dlq show jobs.dlq/3/1042\n  dispatcher dlq show jobs.dlq/3/1042 --raw > job.bin",
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "write the bytes of the payload and nothing else")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if raw && *asJSON {
			return errors.New("dlq show: --raw and --json exclude each other")
		}
		id, err := deadletter.ParseRecordID(args[0])
		if err != nil {
			return err
		}
		client, _, _, err := clientOf(s, cmd)
		if err != nil {
			return err
		}
		letter, err := client.Get(cmd.Context(), id)
		if err != nil {
			return dlqError(cmd, err)
		}
		w := cmd.OutOrStdout()
		switch {
		case raw:
			_, err = w.Write(letter.Record.Value)
		case *asJSON:
			err = cli.PrintJSON(w, newWholeLetter(letter))
		default:
			err = printLetter(w, letter)
		}
		return err
	}
	return cmd
}

func newWholeLetter(l *deadletter.Letter) wholeLetter {
	whole := wholeLetter{letterState: newLetterState(l), Settled: l.Settled, Headers: []headerState{}}
	for _, h := range l.Record.Headers {
		state := headerState{Name: h.Key}
		state.Value, state.ValueHex = asText(h.Value)
		whole.Headers = append(whole.Headers, state)
	}
	if l.Record.Value != nil {
		whole.Value, whole.ValueHex = asText(l.Record.Value)
	}
	return whole
}

func asText(raw []byte) (*string, string) {
	if !utf8.Valid(raw) {
		return nil, hex.EncodeToString(raw)
	}
	text := string(raw)
	return &text, ""
}

func printLetter(w io.Writer, l *deadletter.Letter) error {
	table := cli.Table(w)
	settled := "open"
	if l.Settled {
		settled = "settled: replayed or dropped"
	}
	_, _ = fmt.Fprintf(table, "dead letter %s: %s\n", l.ID, settled)
	for _, row := range [][2]string{
		{"job", cli.Plainly(l.JobID, 0)},
		{"origin", origin(l)},
		{"key", cli.TextOrHex(l.Record.Key, 1024)},
		{"failed", timetext.Stamp(l.FailedAt)},
		{"first failed", timetext.Stamp(l.FirstFailedAt)},
		{"class", cli.Plainly(string(l.Class), 0)},
		{"code", cli.Plainly(l.Code, 0)},
		{"message", cli.Plainly(l.Message, 0)},
		{"answer", cli.Plainly(l.Answer, 0)},
		{"attempts", fmt.Sprint(l.Attempts)},
		{"redrives", fmt.Sprint(l.Redrives)},
	} {
		if row[1] != "" {
			_, _ = fmt.Fprintf(table, "  %s\t%s\n", row[0], row[1])
		}
	}
	if l.Truncated {
		_, _ = fmt.Fprintf(table, "  truncated\tthis is a part; the original had %d bytes\n", l.OriginalSize)
	}
	_, _ = fmt.Fprintf(table, "headers: %d\n", len(l.Record.Headers))
	for _, h := range l.Record.Headers {
		_, _ = fmt.Fprintf(table, "  %s\t%s\n", cli.Plainly(h.Key, 200), cli.TextOrHex(h.Value, 2048))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return printValue(w, l.Record.Value)
}

func printValue(w io.Writer, value []byte) error {
	if value == nil {
		return cli.PrintLine(w, "no value")
	}
	most, render := shownHex, hex.Dump
	if isPlain(value) {
		most, render = shownText, func(b []byte) string { return strings.ToValidUTF8(string(b), "") + "\n" }
	}
	shown := value[:min(len(value), most)]
	_, err := fmt.Fprintf(w, "value: %d bytes\n%s", len(value), render(shown))
	if err == nil && len(shown) < len(value) {
		err = cli.PrintLine(w, fmt.Sprintf("… and %d bytes more; --raw writes all", len(value)-len(shown)))
	}
	return err
}

// isPlain tells whether a terminal shows the bytes and does nothing else.
func isPlain(value []byte) bool {
	return utf8.Valid(value) && !bytes.ContainsFunc(value, func(r rune) bool {
		return !unicode.IsPrint(r) && r != '\n' && r != '\t'
	})
}
