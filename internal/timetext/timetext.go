// Package timetext writes times and durations, the same way everywhere: in a terminal, in JSON and in logs.
package timetext

import (
	"strings"
	"time"
)

// Short writes a duration without the zeros that Go adds: 1m0s is 1m. The names of retry topics hold it, so it stays as it is.
func Short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Exact writes a time for programs; the zero time is empty.
func Exact(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000Z07:00")
}

// StampExact writes for people what [Exact] wrote. What is no time stays as it is.
func StampExact(exact string) string {
	t, err := time.Parse(time.RFC3339Nano, exact)
	if err != nil {
		return exact
	}
	return Stamp(t)
}

// Stamp writes a time for people; the zero time is empty.
func Stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
