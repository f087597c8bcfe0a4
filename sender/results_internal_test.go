package sender

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"dispatcher/internal/fault"
)

// The table in the docs and the one in the code are one table.
func TestTheDocsHaveTheDefaults(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/results.md")
	if err != nil {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(string(text), "What follows a result")
	var documented []string
	for _, row := range regexp.MustCompile(`(?m)^\| ([0-9-]+) \| ([a-z]+) \|`).FindAllStringSubmatch(table, -1) {
		documented = append(documented, row[1]+" "+row[2])
	}
	var declared []string
	for _, r := range defaultResults() {
		declared = append(declared, r.String()+" "+r.kind.String())
	}
	if got, want := strings.Join(documented, "\n"), strings.Join(declared, "\n"); got != want {
		t.Errorf("docs/results.md says\n%s\nwant\n%s", got, want)
	}
}

// A status has the result that is stated for it, else that of its range, else the
// default.
func TestAStatusMeansWhatIsStated(t *testing.T) {
	t.Parallel()
	defaults := newStatusTable(nil)
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SampledFrom(resultNames())
		exact := rapid.MapOfN(rapid.IntRange(leastStatus, mostStatus), names, 0, 5).Draw(t, "exact")
		bounds := rapid.SliceOfNDistinct(rapid.IntRange(leastStatus, mostStatus), 0, 6, rapid.ID[int]).Draw(t, "bounds")
		ranges := make(map[[2]int]string)
		for i := 1; i < len(bounds); i += 2 { // in pairs; those that overlap are refused
			ranges[[2]int{min(bounds[i-1], bounds[i]), max(bounds[i-1], bounds[i])}] = names.Draw(t, "of a range")
		}
		configured := make(Results)
		for status, name := range exact {
			configured[fmt.Sprint(status)] = name
		}
		covered, overlap := make(map[int]string), false
		for r, name := range ranges {
			configured[fmt.Sprintf("%d-%d", r[0], r[1])] = name
			for status := r[0]; status <= r[1]; status++ {
				overlap = overlap || covered[status] != ""
				covered[status] = name
			}
		}
		var faults fault.List
		rules := configured.parse(&faults)
		if (faults.Err() != nil) != overlap {
			t.Fatalf("%v: got %v, want an error: %v", configured, faults.Err(), overlap)
		}
		if overlap {
			return
		}
		table := newStatusTable(rules)
		for status := -1; status <= mostStatus+1; status++ {
			want := defaults.kind(status).String()
			if name := covered[status]; name != "" {
				want = name
			}
			if name := exact[status]; name != "" {
				want = name
			}
			if got := table.kind(status).String(); got != want {
				t.Fatalf("%v: %d is %s, want %s", configured, status, got, want)
			}
		}
	})
}

// A wrong entry is refused, with its name, its value and the remedy.
func TestBadResultsAreRefused(t *testing.T) {
	t.Parallel()
	for status, name := range map[string]string{
		"404": "reject", "4xx": "rejected", "199": "rejected", "1000": "rejected", "0404": "rejected", "-404": "rejected", "404-": "rejected",
		"404-404": "rejected", "500-404": "rejected", "": "rejected", "+404": "rejected", "404 ": "rejected", "503": "not_sent", "504": "",
	} {
		var faults fault.List
		Results{status: name}.parse(&faults)
		if err := faults.Err(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("results.%s: %q: ", status, name)) {
			t.Errorf("%s: %s: got %v, want it refused by name and value", status, name, err)
		}
	}
	var faults fault.List
	if Results(nil).parse(&faults); faults.Err() != nil {
		t.Errorf("no results: got %v, want no fault", faults.Err())
	}
}

// A 403 with the headers of a rate limit is throttled only where no call is left: some providers send them with each answer.
func TestA403IsThrottledWhereNoCallIsLeft(t *testing.T) {
	t.Parallel()
	epoch := strconv.FormatInt(time.Now().Add(300*time.Second).Unix(), 10)
	for name, c := range map[string]struct {
		header map[string]string
		want   Kind
		after  time.Duration // at least, and a second more at most
	}{
		"no header":                           {nil, Unavailable, 0},
		"Retry-After":                         {map[string]string{"Retry-After": "7"}, Throttled, 7 * time.Second},
		"X-RateLimit-Remaining 0":             {map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": epoch}, Throttled, 299 * time.Second},
		"X-RateLimit-Remaining 4711":          {map[string]string{"X-RateLimit-Remaining": "4711", "X-RateLimit-Reset": epoch}, Unavailable, 0},
		"only a reset":                        {map[string]string{"X-RateLimit-Reset": epoch}, Unavailable, 0},
		"no call left, and no time":           {map[string]string{"X-RateLimit-Remaining": "0"}, Unavailable, 0},
		"what is left can't be read":          {map[string]string{"X-RateLimit-Remaining": "none", "X-RateLimit-Reset": "9"}, Unavailable, 0},
		"RateLimit-Remaining 0":               {map[string]string{"RateLimit-Remaining": "0", "RateLimit-Reset": "9"}, Throttled, 9 * time.Second},
		"RateLimit-Remaining 1":               {map[string]string{"RateLimit-Remaining": "1", "RateLimit-Reset": "9"}, Unavailable, 0},
		"a policy used up":                    {map[string]string{"RateLimit": `"burst";r=5;t=2, "day";r=0;t=30`}, Throttled, 30 * time.Second},
		"policies with calls left":            {map[string]string{"RateLimit": `"burst";r=5;t=2, "day";r=9;t=30`}, Unavailable, 0},
		"a policy with no count":              {map[string]string{"RateLimit": `"burst";t=2`}, Unavailable, 0},
		"older shape, no call left":           {map[string]string{"RateLimit": "limit=100, remaining=0, reset=5"}, Throttled, 5 * time.Second},
		"older shape, calls left":             {map[string]string{"RateLimit": "limit=100, remaining=50, reset=5"}, Unavailable, 0},
		"used up in one header, time in next": {map[string]string{"RateLimit": `"a";r=0`, "X-RateLimit-Reset": "6"}, Throttled, 6 * time.Second},
		"too long a header":                   {map[string]string{"RateLimit": `"a";r=0;t=5` + strings.Repeat(" ", maxHint)}, Unavailable, 0},
	} {
		header := make(http.Header)
		for field, value := range c.header {
			header.Set(field, value)
		}
		res := newStatusTable(nil).classify(403, header)
		if res.Kind != c.want || res.RetryAfter < c.after || res.RetryAfter > c.after+time.Second {
			t.Errorf("%s: got %v after %v, want %v after %v", name, res.Kind, res.RetryAfter, c.want, c.after)
		}
		res = newStatusTable(nil).classify(503, header) // waits as long, and is down instead
		if res.Kind != Unavailable || res.RetryAfter < c.after || res.RetryAfter > c.after+time.Second {
			t.Errorf("503, %s: got %v after %v, want %v after %v", name, res.Kind, res.RetryAfter, Unavailable, c.after)
		}
	}
}

// A 403 that names a time is throttled, unless a result is stated for it.
func TestAStated403IsWhatIsStated(t *testing.T) {
	t.Parallel()
	header := http.Header{"Retry-After": {"7"}}
	for stated, want := range map[string]Kind{"": Throttled, "403": Unavailable, "400-499": Unavailable} {
		configured := Results{}
		if stated != "" {
			configured[stated] = "unavailable"
		}
		var faults fault.List
		if res := newStatusTable(configured.parse(&faults)).classify(403, header); res.Kind != want || res.RetryAfter == 0 {
			t.Errorf("%q stated: got %v after %v, want %v after 7s", stated, res.Kind, res.RetryAfter, want)
		}
	}
}
