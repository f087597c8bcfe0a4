package dedup

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"dispatcher/lua"
)

// scriptTest is one node's script on a miniredis whose clock it sets.
type scriptTest struct {
	*testing.T
	script
	clock clock
	now   time.Time
}

func newScriptTest(t *testing.T, text string) *scriptTest {
	t.Helper()
	rdb, c := onMini(t)
	d := &scriptTest{T: t, clock: c, now: time.UnixMicro(1_800_000_000_000_000), script: script{
		rdb: rdb, text: redis.NewScript(text), prefix: prefix("ns"),
		terms: terms{period: time.Hour, window: 2 * time.Hour, hold: 7 * time.Second},
	}}
	c(d.now, 0)
	return d
}

func (d *scriptTest) pass(by time.Duration) {
	d.now = d.now.Add(by)
	d.clock(d.now, by)
}

func (d *scriptTest) ask(v verb, id, who string, number int64) result {
	d.Helper()
	return d.batch(request{verb: v, job: digestOf(id), owner: who, number: number})[0]
}

func (d *scriptTest) batch(asks ...request) []result {
	d.Helper()
	answers, _, err := d.run(d.Context(), asks)
	if err != nil {
		d.Fatal(err)
	}
	return answers
}

// expect fails the test unless an answer is as expected.
func (d *scriptTest) expect(got, want result) {
	d.Helper()
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(result{})); diff != "" {
		d.Errorf("(-want +got)\n%s", diff)
	}
}

func TestALostReplyIsAnsweredTheSame(t *testing.T) {
	t.Parallel()
	d := newScriptTest(t, lua.Dedup())
	for range 3 {
		d.expect(d.ask(verbClaim, "job", "a", 1), result{code: codeGranted})
		d.pass(time.Second)
	}
	for range 2 {
		d.expect(d.ask(verbDone, "job", "a", 4095), result{})
		d.expect(d.ask(verbClaim, "job", "b", 1), result{codeSent, 4095})
	}
}

func TestAClaimStandsForItsHoldAndIsThenUnknown(t *testing.T) {
	t.Parallel()
	d := newScriptTest(t, lua.Dedup())
	d.ask(verbClaim, "job", "a", 1)
	d.pass(4 * time.Second)
	d.expect(d.ask(verbClaim, "job", "b", 1), result{codeBusy, 3_000_000})
	d.expect(d.ask(verbClaim, "job", "a", 2), result{code: codeGranted})
	d.pass(4 * time.Second)
	d.expect(d.ask(verbPeek, "job", "b", 0), result{codeBusy, 3_000_000})
	d.pass(3 * time.Second)
	d.expect(d.ask(verbClaim, "job", "b", 2), result{code: codeUnknown})
	d.terms.takeOver = true
	d.expect(d.ask(verbClaim, "job", "b", 3), result{code: codeTaken})
	d.terms.takeOver = false
	d.expect(d.ask(verbClaim, "job", "a", 3), result{codeBusy, 7_000_000})
	d.ask(verbDone, "job", "a", 7)
	d.expect(d.ask(verbClaim, "job", "b", 4), result{codeSent, 7})
}

// A clock that was set back does not make a claim stand for hours.
func TestAClaimBeginsAgainWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	d := newScriptTest(t, lua.Dedup())
	d.ask(verbClaim, "job", "a", 1)
	d.pass(-5 * time.Hour)
	d.expect(d.ask(verbPeek, "job", "b", 0), result{}) // who polls is to claim it
	d.expect(d.ask(verbClaim, "job", "b", 1), result{codeBusy, 7_000_000})
	d.pass(6 * time.Second)
	d.expect(d.ask(verbClaim, "job", "b", 2), result{codeBusy, 1_000_000})
	d.ask(verbRelease, "job", "b", 2)
	d.pass(time.Second)
	d.expect(d.ask(verbClaim, "job", "b", 3), result{code: codeUnknown})
	d.ask(verbRelease, "job", "a", 1)
	d.expect(d.ask(verbClaim, "job", "b", 4), result{code: codeGranted})
}

func TestAReleasedJobIsFree(t *testing.T) {
	t.Parallel()
	d := newScriptTest(t, lua.Dedup())
	d.ask(verbClaim, "job", "a", 1)
	d.ask(verbRelease, "job", "b", 1)
	d.expect(d.ask(verbPeek, "job", "b", 0), result{codeBusy, 7_000_000})
	d.ask(verbRelease, "job", "a", 1)
	d.expect(d.ask(verbPeek, "job", "b", 0), result{})
	d.ask(verbDone, "job", "a", 1)
	d.ask(verbRelease, "job", "a", 1)
	d.expect(d.ask(verbPeek, "job", "b", 0), result{codeSent, 1})
}

// Entries of one batch are answered in order, also of one job. A batch without entries is answered too.
func TestABatchIsInOrder(t *testing.T) {
	t.Parallel()
	d := newScriptTest(t, lua.Dedup())
	d.batch()
	one, two := digestOf("one"), digestOf("two")
	got := d.batch(
		request{verbClaim, one, "a", 1}, request{verbClaim, one, "b", 1}, request{verbClaim, two, "b", 1},
		request{verbRelease, one, "a", 1}, request{verbClaim, one, "b", 2}, request{verbDone, two, "b", 200}, request{verbPeek, two, "c", 0},
	)
	want := []result{{code: codeGranted}, {codeBusy, 7_000_000}, {code: codeGranted}, {}, {code: codeGranted}, {}, {codeSent, 200}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(result{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// An entry is found for a whole window after it was written, wherever in its
// generation that was, and is gone after one and a half; so are all keys.
func TestAnEntryIsKeptForTheWindowAndNotMuchLonger(t *testing.T) {
	t.Parallel()
	d := newScriptTest(t, lua.Dedup())
	for i := range 12 {
		id := fmt.Sprint(i)
		d.ask(verbDone, id, "a", 5)
		done := d.now
		for _, after := range []time.Duration{0, 30 * time.Minute, time.Hour, 2*time.Hour - time.Second} {
			d.pass(done.Add(after).Sub(d.now))
			d.expect(d.ask(verbPeek, id, "b", 0), result{codeSent, 5})
		}
		if n := len(d.generations); n > 3 {
			t.Fatalf("got %d generations, want 3 at most", n)
		}
		d.pass(time.Hour + time.Second)
		d.expect(d.ask(verbPeek, id, "b", 0), result{})
		d.pass(7 * time.Minute) // to begin elsewhere in a generation
	}
	d.pass(3*time.Hour + time.Second)
	if keys := d.rdb.(redis.UniversalClient).DBSize(t.Context()).Val(); keys != 0 {
		t.Errorf("got %d keys after all is over, want none", keys)
	}
}

// A generation that fills up is followed by a larger one, and after hours with
// few jobs by a smaller one.
func TestBucketsStaySmallWhateverTheRate(t *testing.T) {
	t.Parallel()
	d := newScriptTest(t, strings.Replace(lua.Dedup(), "LEAST, MOST = 1024", "LEAST, MOST = 1", 1))
	count := 0
	send := func(jobs int) {
		t.Helper()
		for jobs > 0 {
			var batch []request
			for range min(jobs, mostEntries) {
				batch = append(batch, request{verbDone, digestOf(fmt.Sprint(count)), "a", 1})
				count++
			}
			jobs -= len(batch)
			d.batch(batch...)
			d.pass(10 * time.Millisecond)
		}
	}
	send(6000)
	if got := d.generations[0].buckets; got < 32 || got > 1024 {
		t.Errorf("got %d buckets after 6000 jobs in a second, want 32 to 1024", got)
	}
	rdb := d.rdb.(redis.UniversalClient)
	for _, key := range rdb.Keys(t.Context(), d.prefix+":*").Val() {
		if n := rdb.HLen(t.Context(), key).Val(); n > 256 {
			t.Errorf("%s holds %d jobs, want some 128", key, n)
		}
	}
	for i := range count {
		if got := d.ask(verbPeek, fmt.Sprint(i), "b", 0); i%97 == 0 && got != (result{codeSent, 1}) {
			t.Fatalf("job %d of %d is not known any more: %+v", i, count, got)
		} else if i > 2000 {
			break
		}
	}
	for range 8 {
		d.pass(time.Hour)
		send(10)
	}
	if got := d.generations[0].buckets; got != 1 {
		t.Errorf("got %d buckets at ten jobs an hour, want 1", got)
	}
}

// A shorter window begins with the next generation. Entries from the longer one are
// kept for that.
func TestAnEntryKeepsTheWindowOfItsTime(t *testing.T) {
	t.Parallel()
	d := newScriptTest(t, lua.Dedup())
	d.ask(verbDone, "old", "a", 1)
	d.terms.period, d.terms.window = time.Minute, 2*time.Minute
	for range 119 {
		d.pass(time.Minute)
		d.expect(d.ask(verbPeek, "old", "b", 0), result{codeSent, 1})
	}
	if n := len(d.generations); n > 6 {
		t.Errorf("got %d generations, want 6 at most", n)
	}
}

// A node that knew a generation that is gone before its time says so.
func TestALostDedupStoreIsNoticed(t *testing.T) {
	t.Parallel()
	d := newScriptTest(t, lua.Dedup())
	look := []request{{verbPeek, digestOf("job"), "a", 0}}
	for _, tc := range []struct {
		name string
		do   func()
		want bool
	}{
		{"at first", func() {}, false},
		{"rotated", func() { d.pass(90 * time.Minute) }, false},
		{"flushed", func() { d.pass(time.Second); d.rdb.(redis.UniversalClient).FlushAll(t.Context()) }, true},
		{"long idle", func() { d.pass(30 * time.Hour) }, false},
	} {
		tc.do()
		if _, lost, err := d.run(t.Context(), look); err != nil || lost != tc.want {
			t.Errorf("%s: got lost %v and %v, want %v", tc.name, lost, err, tc.want)
		}
	}
}

// Each key and argument that the script's header names is used in its body, and
// the other way round.
func TestTheHeaderNamesWhatTheBodyUses(t *testing.T) {
	t.Parallel()
	text := lua.Dedup()
	word := regexp.MustCompile(`(KEYS|ARGV)\[(\d+|i|at)\]`)
	named, used := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(text) {
		into := used
		if strings.HasPrefix(line, "--") {
			into = named
		}
		for _, w := range word.FindAllString(line, -1) {
			into[strings.Replace(w, "[at]", "[i]", 1)] = true
		}
	}
	if diff := cmp.Diff(named, used); diff != "" {
		t.Errorf("(-header +body)\n%s", diff)
	}
}

func FuzzReply(f *testing.F) {
	f.Add("1:1024:5", int64(1), int64(2))
	f.Add("2:4:9 1:1024:5", int64(5), int64(0))
	f.Add("", int64(-1), int64(1<<62))
	f.Fuzz(func(t *testing.T, list string, code, value int64) {
		if generations, err := parseList(list); err == nil {
			for _, g := range generations {
				if g.buckets == 0 || g.name == "" || strings.ContainsAny(g.name, ": {}") {
					t.Errorf("got %+v from %q, want an error", g, list)
				}
			}
		}
		results, err := resultsOf([]any{int64(1), int64(1), code, value}, 1)
		if err == nil && (code < 0 || code >= codeEnd || value < 0 || results[0] != result{code, value}) {
			t.Errorf("got %+v from %d, %d, want an error", results, code, value)
		}
		for _, reply := range [][]any{{int64(1), int64(0), list}, {list, int64(0), list}, {code, value}, {int64(1), code, list, value}} {
			_, _, _ = listOf(reply)
			_, _ = resultsOf(reply, 1)
		}
	})
}
