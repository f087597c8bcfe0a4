package consumer

import (
	"encoding/base64"
	"strings"
	"testing"
)

func marksOf(offsets ...int64) marks {
	var m marks
	for _, o := range offsets {
		m.set(o)
	}
	return m
}

func run(from, to int64) marks {
	var m marks
	for o := from; o < to; o++ {
		m.set(o)
	}
	return m
}

// The format is frozen: these texts are in the offsets topics of clusters.
func TestMarksFormatV1(t *testing.T) {
	t.Parallel()
	stripes := marks{}
	for i := int64(1); i < 64; i += 2 {
		stripes.set(i)
	}
	for _, c := range []struct {
		name string
		m    marks
		want string
	}{
		{"nothing", marks{}, ""},
		{"one", marksOf(1), "v1;AQI"},
		{"far", marksOf(8191), "v1;AP8/AQ"},
		{"runs", marksOf(2, 3, 4, 9), "v1;ARwC"},
		{"long run", run(100, 900), "v1;AGSgBg"},
		{"stripes", stripes, "v1;Aaqqqqqqqqqq"},
	} {
		got := c.m.encode()
		back, err := decodeMarks(got)
		if err != nil || back != c.m {
			t.Errorf("%s: %q reads as other marks: %v", c.name, got, err)
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestMarksAlwaysFit(t *testing.T) {
	t.Parallel()
	var m marks
	for i := int64(1); i < spanCap; i += 2 {
		m.set(i)
	}
	if got := len(m.encode()); got > 1400 {
		t.Errorf("the worst pattern takes %d characters, want at most 1400", got)
	}
}

func TestForeignMetadataIsNoMarks(t *testing.T) {
	t.Parallel()
	raw := func(b ...byte) string { return marksPrefix + base64.RawStdEncoding.EncodeToString(b) }
	for name, text := range map[string]string{
		"other":               "hello",
		"other version":       "v2;AAEB",
		"prefix alone":        "v1;",
		"kind alone":          raw(kindRuns),
		"unknown kind":        raw(2, 1, 1),
		"empty run":           raw(kindRuns, 0, 1),
		"last run not done":   raw(kindRuns, 1, 1, 1),
		"beyond the cap":      raw(kindRuns, 0xff, 0x3f, 2),
		"huge run":            raw(kindRuns, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1),
		"cut varint":          raw(kindRuns, 0x80),
		"bits end in 0":       raw(kindBits, 2, 0),
		"commit point done":   raw(kindBits, 1),
		"too many bits":       raw(append([]byte{kindBits, 2}, []byte(strings.Repeat("\x01", 1024))...)...),
		"padding":             "v1;AAEB====",
		"not base64":          "v1;!!!!",
		"longer than brokers": marksPrefix + strings.Repeat("A", maxMetadata),
	} {
		if m, err := decodeMarks(text); err == nil || m != (marks{}) {
			t.Errorf("%s: got %d marks and error %v, want an error", name, m.n, err)
		}
	}
}

func FuzzDecodeMarks(f *testing.F) {
	for _, s := range []string{"", "v1;AAEB", "v1;AP8/AQ", "v1;AQIDBAE", "v1;", "x", "v1;AgEB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := decodeMarks(text)
		if err != nil {
			return
		}
		if m.n > spanCap || m.done(0) {
			t.Fatalf("%q: got %d marks, the first %v", text, m.n, m.done(0))
		}
		back, err := decodeMarks(m.encode())
		if err != nil || back != m {
			t.Fatalf("%q does not survive a round trip: %v", text, err)
		}
	})
}
