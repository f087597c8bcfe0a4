package expression_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"dispatcher/internal/expression"
	"dispatcher/job"
)

const value = `{"to":46000000000,"big":123456789012345678901234567890,"half":1.5,"whole":4.6e10,"text":"hello",
	"yes":true,"none":null,"empty":"","list":[1,"two"],"object":{"a":"deep"},"huge":1e400}`

func example() *expression.Job {
	return jobOf(value, job.Header{Key: "from", Value: []byte("old")},
		job.Header{Key: "From", Value: []byte("acme")}, job.Header{Key: "cost", Value: []byte("six")}, job.Header{Key: "nothing"})
}

func jobOf(value string, headers ...job.Header) *expression.Job {
	return expression.JobOf(&job.Job{
		Record: job.Record{Topic: "sms.retry.5s", Key: []byte("k1"), Value: []byte(value), Headers: headers}, ID: "id1",
	}, "otp", "sms")
}

func TestKeys(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ source, want, fault string }{
		{source: `job.key`, want: "k1"},
		{source: `job.id`, want: "id1"},
		{source: `job.lane`, want: "otp"},
		{source: `job.topic`, want: "sms"},
		{source: `job["topic"]`, want: "sms"},
		{source: `job.lane + "/" + job.key`, want: "otp/k1"},
		{source: `job.headers["from"]`, want: "acme"},
		{source: `job.headers["FROM"]`, want: "acme"},
		{source: `job.headers.from`, want: "acme"},
		{source: `job.headers[lower("From")]`, want: "acme"},
		{source: `job.headers["FR" + "OM"]`, want: "acme"},
		{source: `job.headers["to"] ?? "none"`, want: "none"},
		{source: `job.headers["to"] ?? job.json.to`, want: "46000000000"},
		{source: `job.json.to`, want: "46000000000"},
		{source: `string(job.json.to)[0:2]`, want: "46"},
		{source: `job.json.whole`, want: "46000000000"},
		{source: `string(job.json.whole)`, want: "46000000000"},
		{source: `job.json.big`, want: "123456789012345678901234567890"},
		{source: `job.json.huge`, want: "1e400"},
		{source: `job.json.yes`, want: "true"},
		{source: `job.json.list[1]`, want: "two"},
		{source: `job.json.object.a`, want: "deep"},
		{source: `job.json?.no?.such ?? "none"`, want: "none"},
		{source: `split(job.json.text, "l")[0] | upper()`, want: "HE"},
		{source: `job.lane in ["otp", "bulk"] ? "a" : "b"`, want: "a"},
		{source: `trim(job.json.text, "h")`, want: "ello"},
		{source: `job.key matches "^k[0-9]$"`, want: "true"},

		{source: `job.headers["to"]`, fault: "gives nothing for this job"},
		{source: `job.headers["nothing"]`, fault: "gives an empty key"},
		{source: `job.headers[job.json.to]`, fault: "at column 1"},
		{source: `job.json.none`, fault: "gives nothing for this job"},
		{source: `job.json.none.such`, fault: "at column 15: the job has no such field"},
		{source: `job.json.empty`, fault: "gives an empty key"},
		{source: `job.json.half`, fault: "is a number with a fraction"},
		{source: `job.json.list`, fault: "is neither text"},
		{source: `job.json.object`, fault: "is neither text"},
		{source: `job.json.list[2]`, fault: "at column 14: the job has no such entry"},
		{source: `job.json.text.such`, fault: "at column 15: "},
		{source: `string(job.json.none)`, fault: "a value that is missing"},
		{source: `job.json.text + 1`, fault: "at column 15: the values of the job don't fit"},
		{source: `job.json.none + "a"`, fault: "missing"},
	} {
		k, err := expression.CompileKey(row.source)
		if err != nil {
			t.Errorf("%s: %v", row.source, err)
			continue
		}
		got, err := k.Of(example())
		checkResult(t, row.source, got, err, row.want, row.fault)
	}
}

func checkResult(t *testing.T, source, got string, err error, want, fault string) {
	t.Helper()
	if (err != nil) != (fault != "") || got != want {
		t.Errorf("%s: got %q and %v, want %q and an error: %t", source, got, err, want, fault != "")
		return
	}
	if err == nil {
		return
	}
	e, ok := errors.AsType[*expression.Error](err)
	if !ok || e.Expression != source || !strings.Contains(e.Reason, fault) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: got %v, want one line with %s", source, err, fault)
	}
	for _, payload := range []string{"460000", "hello", "deep", "acme"} {
		if strings.Contains(err.Error(), payload) {
			t.Errorf("%s: got %v, which shows the job's value", source, err)
		}
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ source, want, fault string }{
		{source: `job.lane == "otp"`, want: "true"},
		{source: `job.lane != "otp" && job.json.no.such`, want: "false"},
		{source: `job.headers["to"] != nil`, want: "false"},
		{source: `job.json.yes`, want: "true"},
		{source: `job.json.to > 45000000000 and job.json.half < 2`, want: "true"},
		{source: `job.json.text startsWith "he"`, want: "true"},
		{source: `job.json.text`, want: "false", fault: "must give true or false, and gives text"},
		{source: `job.json.none`, want: "false", fault: "gives nothing"},
		{source: `job.json.text > 1`, want: "false", fault: "don't fit"},
	} {
		c, err := expression.CompileCondition(row.source)
		if err != nil {
			t.Errorf("%s: %v", row.source, err)
			continue
		}
		got, err := c.Holds(example())
		checkResult(t, row.source, fmt.Sprint(got), err, row.want, row.fault)
	}
}

func TestCosts(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ source, want, fault string }{
		{source: `int(job.headers["units"] ?? "1")`, want: "1"},
		{source: `ceil(len(job.json.text) / 2)`, want: "3"},
		{source: `len(job.json.list)`, want: "2"},
		{source: `int(job.json.half)`, want: "1"},
		{source: `1000000000`, want: "1000000000"},
		{source: `int(job.headers["cost"])`, want: "0", fault: `at column 1: int of a value that is no whole number: text`},
		{source: `job.headers["cost"]`, want: "0", fault: `gives a text, and must give a whole number`},
		{source: `int(job.headers["units"])`, want: "0", fault: "missing"},
		{source: `job.json.half`, want: "0", fault: "gives a number with a fraction"},
		{source: `len(job.key) - 2`, want: "0", fault: "gives a number below 1"},
		{source: `len(job.key) + 1e9`, want: "0", fault: "gives a larger number, and must give a whole number from 1 to 1000000000"},
		{source: `job.json.to`, want: "0", fault: "gives a larger number"},
		{source: `int(job.json.text)`, want: "0", fault: "no whole number: text"},
		{source: `job.json.yes`, want: "0", fault: "gives a bool"},
		{source: `job.json.none`, want: "0", fault: "gives nothing"},
		{source: `job.json.object`, want: "0", fault: "gives a list or an object"},
		{source: `int(job.json.list)`, want: "0", fault: "no whole number: a list or an object"},
	} {
		c, err := expression.CompileCost(row.source)
		if err != nil {
			t.Errorf("%s: %v", row.source, err)
			continue
		}
		got, err := c.Of(example())
		checkResult(t, row.source, fmt.Sprint(got), err, row.want, row.fault)
	}
}

// A value that is written out and can be none is refused before there is a job.
func TestConstants(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"1": "", "1000000000": "", "1e3": "", "2 * 3": "",
		"0": "gives a number below 1", "-1": "gives a number below 1", "1 - 1": "gives a number below 1",
		"0.5": "gives a number below 1", "1.5": "gives a number with a fraction", "1000000001": "from 1 to 1000000000",
	} {
		if _, err := expression.CompileCost(source); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("cost %s: got %v, want %q", source, err, want)
		}
	}
	for source, want := range map[string]string{`"all"`: "", "1": "", "true": "", `""`: "gives an empty key"} {
		if _, err := expression.CompileKey(source); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("key %s: got %v, want %q", source, err, want)
		}
	}
}

// What does not compile is refused with its place and a remedy, on one line.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"":                             "is empty; write text, a whole number or a bool",
		" ":                            "is empty",
		strings.Repeat("1", 1025):      "has 1025 bytes; at most 1024",
		"1" + strings.Repeat("+1", 80): "has more than 128 parts",
		"job.key +":                    "at column 9: unexpected token EOF",
		"job.key +\n job.jso":          `at line 2, column 6: job has no field "jso"; the names are job.key,`,
		"jb.key":                       "at column 1: unknown name jb; the names are",
		"job":                          "job is no value by itself; the names are",
		"string(job)":                  "at column 8: job is no value",
		"job.headers":                  `write job.headers["name"]`,
		`"from" in job.headers`:        `at column 15: job.headers is no value`,
		"job[job.lane]":                "the field of job must be written out",
		"$env":                         "at column 1: $env is not supported",
		`"é" + jo`:                     "at column 7: unknown name jo",
		"job.key == 1":                 "mismatched types",
		"[job.key]":                    "can never be text, a whole number or a bool",
		`{"a": 1}.a`:                   "not supported here",
		"let a = 1; a":                 "not supported here",
		"1..9":                         "a range is not supported",
		"1 in 1..9":                    "a range is not supported",
		"filter([1], true)":            "not supported here",
		"any(job.json.list, # == 1)":   "not supported here",
		"now()":                        "now is not supported here; the functions are int, string",
		`repeat("a", 9)`:               "repeat is not supported",
		`job.key | replace("", "a")`:   "replace is not supported",
		"toJSON(job.json)":             "toJSON is not supported",
		`get(job, "key")`:              "not supported",
		"foo(1)":                       "there is no such function",
		"job.key()":                    "there is no such function",
		"job.key matches job.lane":     "must be written out in quotes",
		`job.key matches "("`:          "missing closing )",
		"trim(job.key, job.lane)":      "the second argument of trim must be written out in quotes",
		`job.key | trim(job.json.a)`:   "the second argument of trim must be written out in quotes",
		"1 % 0":                        "integer divide by zero",
	} {
		_, err := expression.CompileKey(source)
		e, ok := errors.AsType[*expression.Error](err)
		if !ok || !strings.Contains(e.Reason, want) || strings.Contains(e.Error(), "\n") || len(e.Error()) > 600 {
			t.Errorf("%q: got %v, want one line with %s", source, err, want)
		}
	}
	if _, err := expression.CompileCondition(`"a"`); err == nil || !strings.Contains(err.Error(), "can never be a bool") {
		t.Errorf("a condition that is text: got %v", err)
	}
	if _, err := expression.CompileCost(`job.lane == "otp"`); err == nil || !strings.Contains(err.Error(), "can never be a whole number") {
		t.Errorf("a cost that is a bool: got %v", err)
	}
}

// The value is decoded only if an expression asks for it.
func TestJSONIsDecodedIfAskedFor(t *testing.T) {
	t.Parallel()
	k, err := expression.CompileKey(`job.headers["to"] ?? job.json.to`)
	if err != nil {
		t.Fatal(err)
	}
	deep := strings.Repeat("[", 64) + strings.Repeat("]", 64)
	for name, row := range map[string]struct{ value, fault string }{
		"text":       {"hello", "is not JSON"},
		"nothing":    {"", "is not JSON"},
		"two values": {`{"to":1} {"to":2}`, "is not JSON"},
		"cut":        {`{"to":1`, "is not JSON"},
		"too deep":   {`{"to":1,"x":` + deep + `}`, "deeper than 64 levels"},
		"too large":  {`{"to":1,"x":"` + strings.Repeat("x", 1<<20) + `"}`, "more than 1048576 bytes"},
		"a list":     {`[1]`, "at column 31: "},
		"null":       {`null`, "at column 31: "},
		"brackets":   {`{"to":7,"x":"` + strings.Repeat(`[\"`, 100) + `"}`, ""},
		"deep":       {`{"to":7,"x":` + deep[1:127] + `}`, ""},
	} {
		if got, err := k.Of(jobOf(row.value, job.Header{Key: "to", Value: []byte("8")})); got != "8" || err != nil {
			t.Errorf("%s, with the header: got %q and %v, want 8", name, got, err)
		}
		got, err := k.Of(jobOf(row.value))
		if row.fault == "" && (got != "7" || err != nil) {
			t.Errorf("%s: got %q and %v, want 7", name, got, err)
		}
		if row.fault != "" && (err == nil || !strings.Contains(err.Error(), row.fault)) {
			t.Errorf("%s: got %q and %v, want an error with %s", name, got, err, row.fault)
		}
	}
}

func TestKeysAreBounded(t *testing.T) {
	t.Parallel()
	k, _ := expression.CompileKey(`job.headers["to"]`)
	for length, bad := range map[int]bool{1024: false, 1025: true} {
		if _, err := k.Of(jobOf("", job.Header{Key: "to", Value: []byte(strings.Repeat("x", length))})); (err != nil) != bad {
			t.Errorf("%d bytes: got %v, want an error: %t", length, err, bad)
		}
	}
}

// Several goroutines use one program.
func TestSeveralGoroutines(t *testing.T) {
	t.Parallel()
	k, err := expression.CompileKey(`job.headers["to"] ?? job.json.to`)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				want := fmt.Sprint(g*1000 + i)
				if got, err := k.Of(jobOf(`{"to":` + want + `}`)); got != want || err != nil {
					t.Errorf("got %q and %v, want %s", got, err, want)
				}
				_, _ = k.Of(jobOf("broken"))
			}
		})
	}
	wg.Wait()
}

// A whole number is the same key as its digits, wherever it stands.
func TestAWholeNumberIsItsDigits(t *testing.T) {
	t.Parallel()
	fromJSON, _ := expression.CompileKey(`job.json.to`)
	fromText, _ := expression.CompileKey(`string(job.json.to)`)
	fromHeader, _ := expression.CompileKey(`job.headers["to"]`)
	rapid.Check(t, func(t *rapid.T) {
		digits := rapid.StringMatching(`[1-9][0-9]{0,30}`).Draw(t, "digits")
		for _, one := range []struct {
			key  expression.Key
			from *expression.Job
		}{
			{fromJSON, jobOf(`{"to":` + digits + `}`)},
			{fromJSON, jobOf(`{"to":"` + digits + `"}`)},
			{fromText, jobOf(`{"to": ` + digits + ` }`)},
			{fromHeader, jobOf("", job.Header{Key: "TO", Value: []byte(digits)})},
		} {
			if got, err := one.key.Of(one.from); got != digits || err != nil {
				t.Fatalf("got %q and %v, want %s", got, err, digits)
			}
		}
	})
}

func BenchmarkHeaderKey(b *testing.B) { benchmark(b, `job.headers["from"]`) }
func BenchmarkJSONKey(b *testing.B)   { benchmark(b, `job.json.to`) }

func benchmark(b *testing.B, source string) {
	b.Helper()
	k, err := expression.CompileKey(source)
	if err != nil {
		b.Fatal(err)
	}
	j := job.Job{ID: "id1", Record: job.Record{
		Key: []byte("+491701234567"), Value: []byte(`{"id":"4711","from":"acme","to":"+491701234567","text":"Your code is 123456. It is valid for ten minutes."}`),
		Headers: []job.Header{{Key: "traceparent", Value: []byte("00-1-2-01")}, {Key: "from", Value: []byte("acme")}, {Key: "content-type", Value: []byte("application/json")}},
	}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.Of(expression.JobOf(&j, "otp", "sms")); err != nil {
			b.Fatal(err)
		}
	}
}
