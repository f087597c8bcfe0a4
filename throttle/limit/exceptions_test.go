package limit_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dispatcher/throttle/limit"
)

// at is a time on Redis's clock.
func at(us int64) time.Time { return time.UnixMicro(1_700_000_000_000_000 + us) }

// Exceptions are a map from values to caps, some of which end.
func TestExceptionsAreAMap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var e limit.Exceptions
		want := map[limit.Hash]limit.Exception{}
		now := at(0)
		for range rapid.IntRange(0, 40).Draw(t, "changes") {
			now = now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "passes")) * time.Second)
			of := limit.HashOf(fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "value")))
			one := limit.Exception{Of: of, Cap: rapid.Int64Range(1, limit.MaxCap).Draw(t, "cap")}
			if rapid.Bool().Draw(t, "ends") {
				one.Until = now.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "for")) * time.Second)
			}
			if rapid.IntRange(0, 3).Draw(t, "away") == 0 {
				e = e.Without(of, now)
				delete(want, of)
			} else {
				e = e.With(one, now)
				want[of] = one
			}
		}
		for i := range 10 {
			of := limit.HashOf(fmt.Sprint(i))
			got, found := e.Find(of, now)
			one, there := want[of]
			there = there && (one.Until.IsZero() || now.Before(one.Until))
			if found != there || found && (got.Of != one.Of || got.Cap != one.Cap || !got.Until.Equal(one.Until)) {
				t.Fatalf("value %d of %q: got %v, %v, want %v, %v", i, e, got, found, one, there)
			}
			if units := (limit.Terms{Contract: limit.Contract{Cap: 7}, Exceptions: e}).For(of, now).Cap; found && units != one.Cap || !found && units != 7 {
				t.Fatalf("value %d of %q: got a cap of %d", i, e, units)
			}
		}
	})
}

// What is unreadable is an error. What is read is written as it was.
func FuzzExceptions(f *testing.F) {
	one := limit.Exception{Of: limit.HashOf("a"), Cap: 5}
	f.Add(one.String())
	one.Until = at(0)
	f.Add(one.String() + " " + limit.Exception{Of: limit.HashOf("b"), Cap: 7}.String())
	f.Add("=5@")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := limit.Exceptions(text).All()
		if err != nil {
			return
		}
		var again limit.Exceptions
		for _, one := range all {
			if again = again.With(one, time.Time{}); one.Of.String() != strings.ToLower(one.Of.String()) {
				t.Errorf("got the hash %s", one.Of)
			}
		}
		if back, err := again.All(); err != nil || len(back) != len(all) {
			t.Errorf("%q: got %v and %v, want %d exceptions again", text, back, err, len(all))
		}
	})
}

func TestExceptionsThatCanNotBeKeptAreRefused(t *testing.T) {
	t.Parallel()
	a, b := limit.HashOf("a").String(), limit.HashOf("b").String() // a is behind b
	many := make([]string, limit.MaxExceptions+1)
	var e limit.Exceptions
	for i := range many {
		e = e.With(limit.Exception{Of: limit.HashOf(fmt.Sprint(i)), Cap: 1}, at(0))
	}
	for _, row := range []struct{ exceptions, want string }{
		{"", ""},
		{a + "=3", ""},
		{a + "=3@1700000000000000", ""},
		{b + "=3 " + a + "=4", ""},
		{a + "=3 " + b + "=4", "must be hash=cap or hash=cap@until_us, in the order of the hashes"},
		{a + "=3 " + a + "=3", "in the order of the hashes"},
		{a + "=0", "cap: 0: must be from 1 to"},
		{a + "=-1", "cap: -1: must be from 1 to"},
		{a + "=1", "max_cost: 2: must be at most 1"},
		{a + "=x", "must be hash=cap"},
		{a[1:] + "=3", "must be hash=cap"},
		{string(e), "exceptions: 101: must be at most 100"},
	} {
		set := gateTerms("cap", "4", "max_cost", "2")
		set.Exceptions = limit.Exceptions(row.exceptions)
		err := limit.Spec(set).Terms.Validate()
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%.80s: got %v, want %q", row.exceptions, err, row.want)
		}
	}
	first := limit.Spec(gateTerms())
	first.Gate, first.Exceptions = false, limit.Exceptions(a+"=3")
	if err := first.Terms.Validate(); err == nil || !strings.Contains(err.Error(), "is for a limit with a key") {
		t.Errorf("got %v, want no exceptions to the first limit", err)
	}
}

// As many exceptions as a limit may have fit into its settings, also with all overrides.
func TestAllExceptionsFitIntoTheSettings(t *testing.T) {
	t.Parallel()
	set := gateTerms("cap", "4").settings()
	for i := range limit.MaxExceptions {
		set.Exceptions = set.Exceptions.With(limit.Exception{Of: limit.HashOf(fmt.Sprint(i)), Cap: limit.MaxCap, Until: at(0)}, time.UnixMicro(1))
	}
	const costly = "<" // JSON takes more bytes for it than for a quote
	set.Why, set.By = strings.Repeat(costly, 200), strings.Repeat(costly, 200)
	spans := []limit.Span{{Terms: set.Terms}}
	for i := range limit.MaxEnds {
		before := spans[0].Terms
		before.Cap++
		spans = append([]limit.Span{{Terms: before, Until: at(-int64(i))}}, spans...)
	}
	set = set.WithSpans(spans)
	back, err := limit.Unpack(set.Pack())
	if err != nil || !slices.Equal(back.Spans(), spans) {
		t.Errorf("got %v, want the settings as they were packed, of %d bytes", err, len(set.Pack()))
	}
}

func TestChangedExceptionsAreNamed(t *testing.T) {
	t.Parallel()
	var a limit.Exceptions
	one := func(value string, units int64) limit.Exception {
		return limit.Exception{Of: limit.HashOf(value), Cap: units}
	}
	a = a.With(one("stays", 1), at(0)).With(one("goes", 2), at(0)).With(one("changes", 3), at(0))
	b := a.Without(limit.HashOf("goes"), at(0)).With(one("changes", 4), at(0)).With(one("comes", 5), at(0))
	var got []string
	for _, c := range limit.ChangedExceptions(a, b) {
		got = append(got, c.String())
	}
	text := strings.Join(got, ", ")
	for value, want := range map[string]string{"goes": "2 → none", "changes": "3 → 4", "comes": "none → 5"} {
		if phrase := "cap of " + limit.HashOf(value).String()[:8] + "… " + want; !strings.Contains(text, phrase) {
			t.Errorf("got %s, want %s", text, phrase)
		}
	}
	if len(got) != 3 {
		t.Errorf("got %s, want three changes", text)
	}
}

// Slots that were reserved under other exceptions may be too many.
func TestChangedExceptionsAreStricter(t *testing.T) {
	t.Parallel()
	before := gateTerms("cap", "4").settings()
	after := before
	if after.Stricter(before) {
		t.Error("the same terms are stricter")
	}
	after.Exceptions = after.Exceptions.With(limit.Exception{Of: limit.HashOf("a"), Cap: 1}, at(0))
	if !after.Stricter(before) || before.Stricter(after) {
		t.Error("a lower cap of one value is not stricter, or a higher one is")
	}
}
