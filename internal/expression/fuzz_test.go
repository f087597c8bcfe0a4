package expression_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"dispatcher/internal/expression"
	"dispatcher/job"
)

// No source and no job makes a panic. The same job has the same key each time, and an error is
// one line that says which expression it was.
func FuzzKey(f *testing.F) {
	for _, source := range []string{
		`job.key`, `job.headers["from"] ?? job.json.to`, `job.json.list[0] + job.lane`, `split(job.id, "-")[0] | lower()`,
		`job.json?.a?.b ?? "none"`, `job.key matches "^[a-z]+$"`, `ceil(len(job.json.to) / 153)`, `job.json.a[1:2] in ["x"]`,
		`$env`, `let a = job; a`, `job.headers`, `max(job.json.list, 3) ** 2`, `not job.json.yes ? -1 : +2`,
	} {
		f.Add(source, "k", []byte(value), "from", []byte("acme"))
	}
	f.Add(`job.json`, "", []byte(strings.Repeat("[", 200)), "", []byte(nil))
	f.Fuzz(func(t *testing.T, source, key string, value []byte, name string, header []byte) {
		j := job.Job{ID: key, Record: job.Record{Key: []byte(key), Value: value, Headers: []job.Header{{Key: name, Value: header}}}}
		one := expression.JobOf(&j, "otp", "sms")
		if c, err := expression.CompileCost(source); err == nil {
			if units, err := c.Of(one); err == nil && (units < 1 || units > job.MaxCost) {
				t.Errorf("got a cost of %d", units)
			}
		}
		if c, err := expression.CompileCondition(source); err == nil {
			_, err := c.Holds(one)
			checkError(t, source, err)
		}
		k, err := expression.CompileKey(source)
		checkError(t, source, err)
		if err != nil {
			return
		}
		first, err := k.Of(one)
		checkError(t, source, err)
		if err == nil && (first == "" || len(first) > expression.MaxKeyBytes) {
			t.Errorf("got a key of %d bytes", len(first))
		}
		for _, again := range []*expression.Job{one, expression.JobOf(&j, "otp", "sms")} {
			if second, err2 := k.Of(again); second != first || (err2 == nil) != (err == nil) {
				t.Errorf("got %q and %v, then %q and %v", first, err, second, err2)
			}
		}
	})
}

func checkError(t *testing.T, source string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	e, ok := errors.AsType[*expression.Error](err)
	if !ok || e.Expression != source || strings.ContainsAny(e.Error(), "\n\r") || len(e.Error()) > 1200 || !utf8.ValidString(e.Error()) {
		t.Errorf("%q: got %v", source, err)
	}
}
