// Package topicname says what the topics are called that are derived from a topic of
// jobs, and which names Kafka takes.
package topicname

import (
	"regexp"
	"strings"
	"time"
)

// MaxLength is the longest name that Kafka takes, in characters.
const MaxLength = 249

// Rule is what a message says of a name that is not valid.
const Rule = "must be 1 to 249 of a-z A-Z 0-9 . _ -"

var valid = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// Valid tells whether Kafka takes a name for a topic or a group.
func Valid(name string) bool { return valid.MatchString(name) }

const (
	deadSuffix    = ".dlq"
	parkedSuffix  = ".parked"
	retryInfix    = ".retry."
	resultsSuffix = ".results"
)

// Dead is where a topic's dead letters go.
func Dead(topic string) string { return topic + deadSuffix }

// Parked is where jobs go whose call got no answer, with on_unknown: park.
func Parked(topic string) string { return topic + parkedSuffix }

// Results is where the results of a topic's jobs go.
func Results(topic string) string { return topic + resultsSuffix }

// Retry is where a topic's jobs wait for a delay.
func Retry(topic string, delay time.Duration) string { return topic + retryInfix + Delay(delay) }

// HoldsDead tells whether a name is that of dead letters or of parked jobs.
func HoldsDead(name string) bool {
	return strings.HasSuffix(name, deadSuffix) || strings.HasSuffix(name, parkedSuffix)
}

// IsRetryOf tells whether a name is that of a retry topic of a topic, of any delay.
func IsRetryOf(topic, name string) bool { return strings.HasPrefix(name, topic+retryInfix) }

// ResultsOf is the topic whose results a name holds; false: it holds none.
func ResultsOf(name string) (topic string, ok bool) { return strings.CutSuffix(name, resultsSuffix) }

// Delay writes a duration without the zeros that Go adds: 1m0s is 1m.
func Delay(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// ID names a topic for as long as it lives: one that is deleted and created again has
// another. Zero: not known.
type ID [16]byte
