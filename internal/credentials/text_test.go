package credentials_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"dispatcher/internal/credentials"
)

// A text follows its file. If the file can't be read, or is empty for a moment, the last
// good value stays. The failure and its end are logged once each, and never the value.
func TestATextFollowsWhatIsRead(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	text, fault := "hush-1", error(nil)
	source := credentials.NewText("kafka.sasl.password", "hush-0", func() (string, error) { return text, fault }, slog.New(slog.NewTextHandler(&log, nil)))
	for i, step := range []struct {
		text  string
		fault error
		want  string
		said  string // what is logged; empty: nothing
	}{
		{"hush-1", nil, "hush-1", "a credential changed"},
		{"hush-1", nil, "hush-1", ""},
		{"", errors.New("no such file"), "hush-1", "could not be read again"},
		{"", errors.New("no such file"), "hush-1", ""},
		{"", nil, "hush-1", ""},
		{"hush-1", nil, "hush-1", "can be read again"},
		{"", nil, "hush-1", "it is empty"},
		{"hush-2", nil, "hush-2", "a credential changed"},
		{"hush-2", nil, "hush-2", ""},
	} {
		log.Reset()
		text, fault = step.text, step.fault
		if got := source.Now(); got != step.want {
			t.Errorf("step %d: got %s, want %s", i, got, step.want)
		}
		said := log.String()
		if strings.Count(said, "\n") != min(len(step.said), 1) || !strings.Contains(said, step.said) {
			t.Errorf("step %d: logged %q, want %q once", i, said, step.said)
		}
		if strings.Contains(said, "hush") || said != "" && !strings.Contains(said, "setting=kafka.sasl.password") {
			t.Errorf("step %d: logged %q, want the setting's name and not what it holds", i, said)
		}
	}
}

func TestATextWithoutAFileStays(t *testing.T) {
	t.Parallel()
	if got := credentials.NewText("x", "fixed", nil, nil).Now(); got != "fixed" {
		t.Errorf("got %s, want fixed", got)
	}
}
