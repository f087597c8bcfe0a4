package consumer

import (
	"encoding/base64"
	"math"
	"slices"
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
		back, err := decodeMetadata(got)
		if err != nil || back.marks != c.m || back.topic != (topicID{}) || back.pasts != nil {
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
		got := (&metadata{topic: c.id, marks: c.m}).encode()
		back, err := decodeMetadata(got)
		if err != nil || back.topic != c.id || back.marks != c.m || back.pasts != nil {
			t.Errorf("%s: %q reads as topic %x, and other marks or pasts: %v", c.name, got, back.topic, err)
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
	if got := len((&metadata{topic: topicID{1}, marks: m}).encode()); got != 1391 {
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
		if m, err := decodeMetadata(text); err == nil || m.marks != (marks{}) {
			t.Errorf("%s: got %d marks and error %v, want an error", name, m.marks.n, err)
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
		if m, err := decodeMetadata(text); err == nil || m.topic != (topicID{}) || m.marks != (marks{}) || m.pasts != nil {
			t.Errorf("%s: got %+v and error %v, want an error", name, m, err)
		}
	}
}

// As frozen as v1 and v2.
func TestMetadataFormatV3(t *testing.T) {
	t.Parallel()
	id := topicID{0: 1, 15: 2}
	two := pasts{{at: 0, Attempts: Attempts{Calls: 3, Failures: 2}}, {at: 7, Attempts: Attempts{Calls: 1, Failures: 1}}, {at: 8, Attempts: Attempts{Calls: 1, Failures: 1}}}
	for _, c := range []struct {
		name string
		m    metadata
		want string
	}{
		{"no marks", metadata{topic: id, pasts: two[:1]}, "v3;AQAAAAAAAAAAAAAAAAAAAgAAAQID"},
		{"marks and runs", metadata{topic: id, marks: marksOf(1), pasts: two}, "v3;AQAAAAAAAAAAAAAAAAAAAgIBAgABAgMGAgEB"},
		{"far", metadata{topic: id, pasts: pasts{{at: spanCap - 1, Attempts: Attempts{Calls: 300, Failures: 299}}}}, "v3;AQAAAAAAAAAAAAAAAAAAAgD/PwGrAqwC"},
		{"no call left", metadata{topic: id, pasts: pasts{{at: 0, Attempts: Attempts{Failures: 3}}}}, "v3;AQAAAAAAAAAAAAAAAAAAAgAAAQMA"},
		{"no id", metadata{marks: marksOf(1), pasts: two}, "v1;AQI"},
	} {
		got := c.m.encode()
		back, err := decodeMetadata(got)
		if err != nil || back.topic != c.m.topic || back.marks != c.m.marks || c.m.topic != (topicID{}) && !slices.Equal(back.pasts, c.m.pasts) {
			t.Errorf("%s: %q reads as %+v, %v", c.name, got, back, err)
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// However many jobs failed, the marks fit, and the pasts of the first jobs with them.
func TestPastsThatDontFitAreLeftOut(t *testing.T) {
	t.Parallel()
	m := metadata{topic: topicID{1}}
	for i := int64(1); i < spanCap; i += 2 {
		m.marks.set(i)
	}
	for i := int64(0); i < spanCap; i += 2 {
		m.pasts.set(i, Attempts{Calls: int(i%7) + 9, Failures: int(i%5) + 1})
	}
	text := m.encode()
	got, err := decodeMetadata(text)
	if n := len(got.pasts); err != nil || len(text) > maxMetadata || got.marks != m.marks || n < 400 || !slices.Equal(got.pasts, m.pasts[:n]) {
		t.Errorf("got %d pasts in %d characters, %v; want the marks and the first pasts", n, len(text), err)
	}
	wall := metadata{topic: topicID{1}}
	for i := range int64(spanCap) {
		wall.pasts.set(i, Attempts{Calls: 4, Failures: 4})
	}
	if text := wall.encode(); len(text) > 40 {
		t.Errorf("a wall of jobs that failed equally often takes %d characters", len(text))
	}
	huge := metadata{topic: topicID{1}, pasts: pasts{{Attempts: Attempts{Calls: math.MaxInt32, Failures: math.MaxInt32}}}}
	if got, err := decodeMetadata(huge.encode()); err != nil || len(got.pasts) != 1 {
		t.Errorf("counts that a producer made up: got %+v, %v", got.pasts, err)
	}
}

func TestForeignPastsAreIgnored(t *testing.T) {
	t.Parallel()
	raw := func(b ...byte) string { return pastsPrefix + base64.RawStdEncoding.EncodeToString(b) }
	id := topicID{1, 15: 2}
	with := func(b ...byte) string { return raw(append(id[:], b...)...) }
	for name, text := range map[string]string{
		"prefix alone":        pastsPrefix,
		"half an id":          raw(id[:8]...),
		"no id":               raw(append(make([]byte, 16), 0, 0, 1, 1, 0)...),
		"no length":           with(),
		"no pasts":            with(0),
		"marks cut off":       with(9, kindRuns, 1, 1),
		"marks of no kind":    with(2, 7, 1, 0, 1, 1, 0),
		"half a run":          with(0, 0, 1, 1),
		"empty run":           with(0, 0, 0, 1, 0),
		"no failures":         with(0, 0, 1, 0, 1),
		"beyond the cap":      with(0, 0xff, 0x3f, 2, 1, 0),
		"too many failures":   with(0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0x7f, 0),
		"cut varint":          with(0, 0, 1, 1, 0x80),
		"padding":             with(0, 0, 1, 1, 0) + "=",
		"longer than brokers": pastsPrefix + strings.Repeat("A", maxMetadata),
	} {
		if m, err := decodeMetadata(text); err == nil || m.topic != (topicID{}) || m.marks != (marks{}) || m.pasts != nil {
			t.Errorf("%s: got %+v and error %v, want an error", name, m, err)
		}
	}
}

func FuzzDecodeMetadata(f *testing.F) {
	for _, s := range []string{
		"", "v1;AAEB", "v1;AP8/AQ", "v1;AQIDBAE", "v1;", "x", "v1;AgEB", "v2;AQAAAAAAAAAAAAAAAAAAAg", "v2;AQAAAAAAAAAAAAAAAAAAAgABAQ", "v2;AQAAAAAAAAAAAAAAAAAAAgGqCg",
		"v2;", "v1;v2;AA", "v3;AQAAAAAAAAAAAAAAAAAAAgIBAgABAgMGAgEB", "v3;AQAAAAAAAAAAAAAAAAAAAgD/PwGrAqwC", "v3;",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := decodeMetadata(text)
		if err != nil {
			return
		}
		if m.marks.n > spanCap || m.marks.done(0) || m.pasts.span() > spanCap {
			t.Fatalf("%q: got %+v", text, m)
		}
		back, err := decodeMetadata(m.encode())
		if err != nil || back.topic != m.topic || back.marks != m.marks || !slices.Equal(back.pasts, m.pasts) {
			t.Fatalf("%q does not survive a round trip: %+v, %v", text, back, err)
		}
	})
}
