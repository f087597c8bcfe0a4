package node

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"dispatcher/consumer"
	"dispatcher/internal/why"
	"dispatcher/throttle/limit"
)

// A job that waits for a paused limit waits for an operator. The time at which the node looks again says nothing.
func TestWhyNamesThePauseOfALimit(t *testing.T) {
	t.Parallel()
	looks, ends := time.Unix(1_700_000_005, 0), time.Unix(1_700_000_900, 0)
	for name, tc := range map[string]struct {
		set   limit.Settings
		until *time.Time
		text  string
	}{
		"resumed": {limit.Settings{Terms: limit.Terms{Paused: true}, By: "anna", Why: "a test"}, nil, "the limit otp is paused until somebody resumes it (dispatcher limit resume); last change by anna (a test)"},
		"ends":    {limit.Settings{Terms: limit.Terms{Paused: true}, By: "anna", RevertAt: ends}, timeOf(ends), "the limit otp is paused until 2023-11-14T22:28:20Z; last change by anna"},
		"an override ends and the pause stays": {
			limit.Settings{Terms: limit.Terms{Paused: true}, By: "bob", RevertAt: ends, RevertTo: limit.Terms{Paused: true}},
			nil,
			"the limit otp is paused until somebody resumes it (dispatcher limit resume); last change by bob",
		},
	} {
		one := why.Job{WaitsFor: "limit", Limit: "otp", Until: timeOf(looks)}
		whyPaused(&one, tc.set)
		sameTime := (one.Until == nil) == (tc.until == nil) && (one.Until == nil || one.Until.Equal(*tc.until))
		if one.WaitsFor != waitsForResume || !sameTime || !strings.HasPrefix(one.Why, tc.text) {
			t.Errorf("%s: got %+v until %v, want %q until %v", name, one, one.Until, tc.text, tc.until)
		}
	}
	one := why.Job{WaitsFor: "limit", Limit: "otp", Why: "as before"}
	if whyPaused(&one, limit.Settings{}); one.WaitsFor != "limit" || one.Why != "as before" {
		t.Errorf("got %+v of a limit that is not paused, want no change", one)
	}
}

// What a job may wait for has words for people, and a line in the operators' table.
func TestOperatorsReadOfEachReason(t *testing.T) {
	t.Parallel()
	declared := found(`WaitsFor[A-Za-z]+ +WaitsFor = "([a-z_]+)"`, read(t, "../../consumer/internal/status/stay.go"))
	declared = slices.DeleteFunc(declared, func(reason string) bool { return reason == string(consumer.WaitsForTurn) }) // whyTurn says more
	declared = append(declared, found(`waitsFor[A-Za-z]+ += "([a-z_]+)"`, read(t, "why.go"))...)
	_, table, _ := strings.Cut(read(t, "../../docs/operations.md"), "| `waits_for` |")
	table, _, _ = strings.Cut(table, "\n\n")
	for name, got := range map[string][]string{"words": slices.Collect(maps.Keys(awaited)), "lines in docs/operations.md": found("(?m)^\\| `([a-z_]+)` \\|", table)} {
		slices.Sort(got)
		slices.Sort(declared)
		if !slices.Equal(got, declared) {
			t.Errorf("got %s for %v, want them for %v", name, got, declared)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// found is what an expression finds in a text.
func found(expression, text string) (all []string) {
	for _, match := range regexp.MustCompile(expression).FindAllStringSubmatch(text, -1) {
		all = append(all, match[1])
	}
	return all
}

func TestTheNodeSaysWhereARecordIs(t *testing.T) {
	t.Parallel()
	at := consumer.Progress{Fetched: 20, End: 30}
	settled := consumer.Progress{Settled: true, Fetched: 20, End: 30}
	for _, c := range []struct {
		offset int64
		at     consumer.Progress
		held   bool
		want   string
	}{
		{offset: 7, at: at, held: true, want: "is a job that waits or is called"},
		{offset: 7, at: settled, want: "is settled: it was called, went to a retry topic, is a dead letter, or its record holds no job"},
		{offset: 19, at: at, want: "is just being settled or released"},
		{offset: 20, at: at, want: "is not fetched yet: it is the next"},
		{offset: 21, at: at, want: "is not fetched yet, nor is the record before it"},
		{offset: 29, at: at, want: "is not fetched yet, nor are 9 records before it"},
		{offset: 30, at: at, want: "is not in the log: the partition ends at offset 30"},
	} {
		if got := whereabouts(c.offset, c.at, c.held); got != c.want {
			t.Errorf("offset %d of %+v, held %t: got %q, want %q", c.offset, c.at, c.held, got, c.want)
		}
	}
}
