// Package fault is how a package refuses settings: each fault names the field, its
// value and the remedy, and all faults of a set are reported together.
//
// The package that uses a setting checks it (consumer, throttle, sender and so on).
// A field is named as in its own section, such as "timeout"; whoever holds the
// section puts the path in front of it with [List.Under], such as "sender.http".
//
// The package does not know which values are secret. An owner that must not show a
// value gives [Hidden] instead, and configs shows a reference in place of what it
// stands for.
package fault

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"dispatcher/internal/clip"
)

// Error is one setting that can't be honoured.
type Error struct {
	Field  string // its path, as in "lanes.1.min_share"
	Value  any
	Remedy string
}

// Error shows text in quotes, and everything else as fmt does.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s: %s", e.Field, shown(e.Value), e.Remedy) }

// Phrase is shown in place of a value, without quotes.
type Phrase string

// Hidden stands for a value that must not be shown.
const Hidden Phrase = "(hidden)"

// Entries stands for a list of which the length is at fault.
func Entries(n int) Phrase { return Phrase(strconv.Itoa(n) + " entries") }

const longestShown = 80 // bytes of a text

func shown(value any) string {
	text, ok := value.(string)
	if !ok {
		return fmt.Sprint(value)
	}
	return clip.Quoted(text, longestShown)
}

// List collects the faults of a set of settings. Its zero value is empty.
type List struct{ found []*Error }

// Refuse adds a fault of the field if bad. The remedy is a format of [fmt.Sprintf].
func (l *List) Refuse(bad bool, field string, value any, remedy string, args ...any) {
	if bad {
		l.found = append(l.found, &Error{Field: field, Value: value, Remedy: fmt.Sprintf(remedy, args...)})
	}
}

// Within refuses a number outside of least to most.
func (l *List) Within(field string, value, least, most int) {
	l.Refuse(value < least || value > most, field, value, "must be from %d to %d", least, most)
}

// Between refuses a duration outside of least to most.
func (l *List) Between(field string, value, least, most time.Duration) {
	l.Refuse(value < least || value > most, field, value, "must be from %s to %s", least, most)
}

// OneOf refuses a text that is not allowed.
func (l *List) OneOf(field, value string, allowed ...string) {
	l.Refuse(!slices.Contains(allowed, value), field, value, "must be one of %s", strings.Join(allowed, ", "))
}

// Under adds the faults of err, which another owner found, with the path of its
// section in front of their fields. An error that is no fault becomes one of the
// section itself.
func (l *List) Under(path string, err error) {
	for _, e := range All(err) {
		e.Field = strings.Trim(path+"."+e.Field, ".")
		l.found = append(l.found, e)
	}
}

// Err joins all faults; nil: there are none.
func (l *List) Err() error {
	var all []error
	for _, e := range l.found {
		all = append(all, e)
	}
	return errors.Join(all...)
}

// All takes a joined error apart, also one that is wrapped. What is no [Error] becomes one without a field.
func All(err error) []*Error {
	if err == nil {
		return nil
	}
	if joined, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err); ok {
		var all []*Error
		for _, e := range joined.Unwrap() {
			all = append(all, All(e)...)
		}
		return all
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return []*Error{{Field: e.Field, Value: e.Value, Remedy: e.Remedy}}
	}
	return []*Error{{Value: Phrase("refused"), Remedy: err.Error()}}
}

// New is one fault, as an error.
func New(field string, value any, remedy string) error {
	return &Error{Field: field, Value: value, Remedy: remedy}
}

// Plain is the fault of a text with control characters. They would act on the terminal of somebody who reads it, or forge a row of
// a table.
func Plain(field, text string) error {
	if strings.ContainsFunc(text, unicode.IsControl) {
		return New(field, Phrase(strconv.Quote(text)), "must have no control characters, such as a line break or an escape")
	}
	return nil
}
