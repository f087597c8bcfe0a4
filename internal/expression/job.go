package expression

import (
	"slices"
	"strings"

	"dispatcher/job"
)

// Job is one job, for any number of expressions. It decodes the value at most once. It is for
// one goroutine at a time.
type Job struct{ env env }

// JobOf prepares a job. The lane is the name of the job's lane, and the topic that to which
// its producer wrote it: a retry topic would give the job other limits than its first attempt
// had. The Job keeps parts of j, which must not change.
func JobOf(j *job.Job, lane, topic string) *Job {
	return &Job{env{fields{
		Key: string(j.Key), ID: j.ID, Lane: lane, Topic: topic,
		headers: j.Headers, value: j.Value,
	}}}
}

// env holds the names of an expression: the only one is job.
type env struct {
	Job fields `expr:"job"`
}

// fields are what follows "job.". The compiler takes the names and types from here.
// Headers and JSON are never read: [names] puts calls in their place.
type fields struct {
	Key     string         `expr:"key"`
	ID      string         `expr:"id"`
	Lane    string         `expr:"lane"`
	Topic   string         `expr:"topic"`
	Headers map[string]any `expr:"headers"`
	JSON    any            `expr:"json"`

	headers []job.Header
	value   []byte

	decoded bool
	json    any
	notJSON error
}

// header is the last header of a name in lower case; nil: there is none.
func (f *fields) header(name string) any {
	for _, h := range slices.Backward(f.headers) {
		if strings.ToLower(h.Key) == name {
			return string(h.Value)
		}
	}
	return nil
}

// decode is the value of job.json.
func (f *fields) decode() (any, error) {
	if !f.decoded {
		f.decoded = true
		f.json, f.notJSON = decodeJSON(f.value)
	}
	return f.json, f.notJSON
}
