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

// As frozen as v1. An id that is not known leaves v1.
func TestMarksFormatV2(t *testing.T) {
	t.Parallel()
	id := topicID{0: 1, 15: 2}
	for _, c := range []struct {
		name string
		id   topicID
		m    marks
		want string
	}{
		{"nothing", id, marks{}, "v2;AQAAAAAAAAAAAAAAAAAAAg"},
		{"one", id, marksOf(1), "v2;AQAAAAAAAAAAAAAAAAAAAgEC"},
		{"bits", id, marksOf(1, 3, 5, 7, 9, 11), "v2;AQAAAAAAAAAAAAAAAAAAAgGqCg"},
		{"no id and nothing", topicID{}, marks{}, ""},
		{"no id", topicID{}, marksOf(1), "v1;AQI"},
	} {
		got := c.m.encodeOf(c.id)
		of, back, err := decodeMetadata(got)
		if err != nil || of != c.id || back != c.m {
			t.Errorf("%s: %q reads as topic %x and other marks: %v", c.name, got, of, err)
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
	if got := len(m.encodeOf(topicID{1})); got != 1391 {
		t.Errorf("the worst pattern takes %d characters with an id, want 1391", got)
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

func TestForeignMetadataNamesNoTopic(t *testing.T) {
	t.Parallel()
	raw := func(b ...byte) string { return idPrefix + base64.RawStdEncoding.EncodeToString(b) }
	id := topicID{1, 15: 2}
	for name, text := range map[string]string{
		"prefix alone":        idPrefix,
		"half an id":          raw(id[:8]...),
		"no id":               raw(make([]byte, 16)...),
		"kind alone":          raw(append(id[:], kindRuns)...),
		"unknown kind":        raw(append(id[:], 2, 1, 1)...),
		"last run not done":   raw(append(id[:], kindRuns, 1, 1, 1)...),
		"commit point done":   raw(append(id[:], kindBits, 1)...),
		"both versions":       marksPrefix + raw(id[:]...),
		"padding":             raw(id[:]...) + "==",
		"longer than brokers": idPrefix + strings.Repeat("A", maxMetadata),
	} {
		if of, m, err := decodeMetadata(text); err == nil || of != (topicID{}) || m != (marks{}) {
			t.Errorf("%s: got topic %x, %d marks and error %v, want an error", name, of, m.n, err)
		}
	}
}

func FuzzDecodeMetadata(f *testing.F) {
	for _, s := range []string{"", "v1;AAEB", "v2;AQAAAAAAAAAAAAAAAAAAAg", "v2;AQAAAAAAAAAAAAAAAAAAAgABAQ", "v2;AQAAAAAAAAAAAAAAAAAAAgGqCg", "v2;", "v1;v2;AA"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, m, err := decodeMetadata(text)
		if err != nil {
			return
		}
		if m.n > spanCap || m.done(0) {
			t.Fatalf("%q: got %d marks, the first %v", text, m.n, m.done(0))
		}
		of, back, err := decodeMetadata(m.encodeOf(id))
		if err != nil || of != id || back != m {
			t.Fatalf("%q does not survive a round trip: topic %x for %x, %v", text, of, id, err)
		}
	})
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
