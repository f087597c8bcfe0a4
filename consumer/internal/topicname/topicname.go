package topicname

import (
	"strings"
	"time"

	"dispatcher/internal/timetext"
	"dispatcher/job"
)

// MaxLength is the length of the longest name that Kafka accepts.
const MaxLength = 249

// Rule is the message about a name that is not valid.
const Rule = "must be 1 to 249 of a-z A-Z 0-9 . _ -, and not . or .."

// Valid tells whether Kafka accepts a name for a topic. Groups follow the same rule here.
func Valid(name string) bool { return job.IsTopic(name) }

const (
	deadSuffix    = ".dlq"
	parkedSuffix  = ".parked"
	retryInfix    = ".retry."
	resultsSuffix = ".results"
)

// Dead is the topic of a source topic's dead letters.
func Dead(topic string) string { return topic + deadSuffix }

// Parked is the topic of jobs whose call got no answer, with on_unknown: park.
func Parked(topic string) string { return topic + parkedSuffix }

// Results is the topic of the results of a source topic's jobs.
func Results(topic string) string { return topic + resultsSuffix }

// Retry is the topic where a source topic's jobs wait for a delay.
func Retry(topic string, delay time.Duration) string { return topic + retryInfix + Delay(delay) }

// DeadOf returns the source topic of a topic of dead letters or of parked jobs. It returns
// false for other names.
func DeadOf(name string) (topic string, ok bool) {
	if topic, ok = strings.CutSuffix(name, deadSuffix); ok {
		return topic, true
	}
	return strings.CutSuffix(name, parkedSuffix)
}

// IsRetryOf tells whether a name is that of a retry topic of a source topic, with any delay.
func IsRetryOf(topic, name string) bool { return strings.HasPrefix(name, topic+retryInfix) }

// ResultsOf returns the source topic of a topic of results. It returns false for other names.
func ResultsOf(name string) (topic string, ok bool) { return strings.CutSuffix(name, resultsSuffix) }

// Delay is a delay as the name of a retry topic has it.
func Delay(d time.Duration) string { return timetext.Short(d) }

// ID is Kafka's id of a topic. A topic that is deleted and created again gets another id.
// Zero: not known.
type ID [16]byte
