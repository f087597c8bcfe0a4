package offsets

import (
	"encoding/base64"
	"math"
	"slices"
	"strings"
	"testing"

	"dispatcher/consumer/internal/topicname"
)

func bitmapOf(offsets ...int64) Bitmap {
	var m Bitmap
	for _, o := range offsets {
		m.set(o)
	}
	return m
}

func bitmapFromTo(from, to int64) Bitmap {
	var m Bitmap
	for o := from; o < to; o++ {
		m.set(o)
	}
	return m
}

// The format is frozen: clusters have these texts in their offsets topics.
func TestMetadataFormatV1(t *testing.T) {
	t.Parallel()
	stripes := Bitmap{}
	for i := int64(1); i < 64; i += 2 {
		stripes.set(i)
	}
	for _, c := range []struct {
		name string
		m    Bitmap
		want string
	}{
		{"nothing", Bitmap{}, ""},
		{"one", bitmapOf(1), "v1;AQI"},
		{"far", bitmapOf(8191), "v1;AP8/AQ"},
		{"runs", bitmapOf(2, 3, 4, 9), "v1;ARwC"},
		{"long run", bitmapFromTo(100, 900), "v1;AGSgBg"},
		{"stripes", stripes, "v1;Aaqqqqqqqqqq"},
	} {
		got := c.m.Encode()
		back, err := DecodeMetadata(got)
		if err != nil || back.Bitmap != c.m || back.Topic != (topicname.ID{}) || back.Attempts != nil {
			t.Errorf("%s: %q: got %+v and error %v, want the bitmap of %d offsets", c.name, got, back, err, c.m.N)
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// The format is frozen. Without an id, the text is v1.
func TestMetadataFormatV2(t *testing.T) {
	t.Parallel()
	id := topicname.ID{0: 1, 15: 2}
	for _, c := range []struct {
		name string
		id   topicname.ID
		m    Bitmap
		want string
	}{
		{"nothing", id, Bitmap{}, "v2;AQAAAAAAAAAAAAAAAAAAAg"},
		{"one", id, bitmapOf(1), "v2;AQAAAAAAAAAAAAAAAAAAAgEC"},
		{"bits", id, bitmapOf(1, 3, 5, 7, 9, 11), "v2;AQAAAAAAAAAAAAAAAAAAAgGqCg"},
		{"no id and nothing", topicname.ID{}, Bitmap{}, ""},
		{"no id", topicname.ID{}, bitmapOf(1), "v1;AQI"},
	} {
		got := (&Metadata{Topic: c.id, Bitmap: c.m}).Encode()
		back, err := DecodeMetadata(got)
		if err != nil || back.Topic != c.id || back.Bitmap != c.m || back.Attempts != nil {
			t.Errorf("%s: %q: got %+v and error %v, want topic %x and the bitmap of %d offsets", c.name, got, back, err, c.id, c.m.N)
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestBitmapAlwaysFits(t *testing.T) {
	t.Parallel()
	var m Bitmap
	for i := int64(1); i < Window; i += 2 {
		m.set(i)
	}
	if got := len(m.Encode()); got > 1400 {
		t.Errorf("the worst pattern takes %d characters, want at most 1400", got)
	}
	if got := len((&Metadata{Topic: topicname.ID{1}, Bitmap: m}).Encode()); got != 1391 {
		t.Errorf("the worst pattern takes %d characters with an id, want 1391", got)
	}
}

func TestForeignMetadataHoldsNoBitmap(t *testing.T) {
	t.Parallel()
	raw := func(b ...byte) string { return prefixV1 + base64.RawStdEncoding.EncodeToString(b) }
	for name, text := range map[string]string{
		"other":               "hello",
		"other version":       "v2;AAEB",
		"prefix alone":        "v1;",
		"kind alone":          raw(kindRuns),
		"unknown kind":        raw(2, 1, 1),
		"empty run":           raw(kindRuns, 0, 1),
		"last run not done":   raw(kindRuns, 1, 1, 1),
		"beyond the window":   raw(kindRuns, 0xff, 0x3f, 2),
		"huge run":            raw(kindRuns, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1),
		"short varint":        raw(kindRuns, 0x80),
		"bits end in 0":       raw(kindBits, 2, 0),
		"committed one done":  raw(kindBits, 1),
		"too many bits":       raw(append([]byte{kindBits, 2}, []byte(strings.Repeat("\x01", 1024))...)...),
		"padding":             "v1;AAEB====",
		"not base64":          "v1;!!!!",
		"longer than brokers": prefixV1 + strings.Repeat("A", maxMetadata),
	} {
		if m, err := DecodeMetadata(text); err == nil || m.Bitmap != (Bitmap{}) {
			t.Errorf("%s: got %d offsets and error %v, want an error", name, m.Bitmap.N, err)
		}
	}
}

func TestForeignMetadataHoldsNoTopic(t *testing.T) {
	t.Parallel()
	raw := func(b ...byte) string { return prefixV2 + base64.RawStdEncoding.EncodeToString(b) }
	id := topicname.ID{1, 15: 2}
	for name, text := range map[string]string{
		"prefix alone":        prefixV2,
		"half an id":          raw(id[:8]...),
		"no id":               raw(make([]byte, 16)...),
		"kind alone":          raw(append(id[:], kindRuns)...),
		"unknown kind":        raw(append(id[:], 2, 1, 1)...),
		"last run not done":   raw(append(id[:], kindRuns, 1, 1, 1)...),
		"committed one done":  raw(append(id[:], kindBits, 1)...),
		"both versions":       prefixV1 + raw(id[:]...),
		"padding":             raw(id[:]...) + "==",
		"longer than brokers": prefixV2 + strings.Repeat("A", maxMetadata),
	} {
		if m, err := DecodeMetadata(text); err == nil || m.Topic != (topicname.ID{}) || m.Bitmap != (Bitmap{}) || m.Attempts != nil {
			t.Errorf("%s: got %+v and error %v, want an error", name, m, err)
		}
	}
}

// The format is frozen.
func TestMetadataFormatV3(t *testing.T) {
	t.Parallel()
	id := topicname.ID{0: 1, 15: 2}
	two := AttemptList{{offset: 0, Attempts: Attempts{Calls: 3, Failures: 2}}, {offset: 7, Attempts: Attempts{Calls: 1, Failures: 1}}, {offset: 8, Attempts: Attempts{Calls: 1, Failures: 1}}}
	for _, c := range []struct {
		name string
		m    Metadata
		want string
	}{
		{"no bitmap", Metadata{Topic: id, Attempts: two[:1]}, "v3;AQAAAAAAAAAAAAAAAAAAAgAAAQID"},
		{"bitmap and runs", Metadata{Topic: id, Bitmap: bitmapOf(1), Attempts: two}, "v3;AQAAAAAAAAAAAAAAAAAAAgIBAgABAgMGAgEB"},
		{"far", Metadata{Topic: id, Attempts: AttemptList{{offset: Window - 1, Attempts: Attempts{Calls: 300, Failures: 299}}}}, "v3;AQAAAAAAAAAAAAAAAAAAAgD/PwGrAqwC"},
		{"no call left", Metadata{Topic: id, Attempts: AttemptList{{offset: 0, Attempts: Attempts{Failures: 3}}}}, "v3;AQAAAAAAAAAAAAAAAAAAAgAAAQMA"},
		{"no id", Metadata{Bitmap: bitmapOf(1), Attempts: two}, "v1;AQI"},
	} {
		got := c.m.Encode()
		back, err := DecodeMetadata(got)
		if err != nil || back.Topic != c.m.Topic || back.Bitmap != c.m.Bitmap || c.m.Topic != (topicname.ID{}) && !slices.Equal(back.Attempts, c.m.Attempts) {
			t.Errorf("%s: %q: got %+v and error %v, want %+v", c.name, got, back, err, c.m)
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// However many jobs failed, the bitmap fits, with the attempts of the first jobs.
func TestAttemptsThatDoNotFitAreLeftOut(t *testing.T) {
	t.Parallel()
	m := Metadata{Topic: topicname.ID{1}}
	for i := int64(1); i < Window; i += 2 {
		m.Bitmap.set(i)
	}
	for i := int64(0); i < Window; i += 2 {
		m.Attempts.set(i, Attempts{Calls: int(i%7) + 9, Failures: int(i%5) + 1})
	}
	text := m.Encode()
	got, err := DecodeMetadata(text)
	if n := len(got.Attempts); err != nil || len(text) > maxMetadata || got.Bitmap != m.Bitmap || n < 400 || !slices.Equal(got.Attempts, m.Attempts[:n]) {
		t.Errorf("got attempts of %d jobs in %d characters, error %v; want the bitmap and the first 400 jobs at least", n, len(text), err)
	}
	same := Metadata{Topic: topicname.ID{1}}
	for i := range int64(Window) {
		same.Attempts.set(i, Attempts{Calls: 4, Failures: 4})
	}
	if text := same.Encode(); len(text) > 40 {
		t.Errorf("jobs that failed equally often: got %d characters, want at most 40", len(text))
	}
	huge := Metadata{Topic: topicname.ID{1}, Attempts: AttemptList{{Attempts: Attempts{Calls: math.MaxInt32, Failures: math.MaxInt32}}}}
	if got, err := DecodeMetadata(huge.Encode()); err != nil || len(got.Attempts) != 1 {
		t.Errorf("huge counts: got %+v and error %v, want one job", got.Attempts, err)
	}
}

func TestForeignAttemptsAreIgnored(t *testing.T) {
	t.Parallel()
	raw := func(b ...byte) string { return prefixV3 + base64.RawStdEncoding.EncodeToString(b) }
	id := topicname.ID{1, 15: 2}
	with := func(b ...byte) string { return raw(append(id[:], b...)...) }
	for name, text := range map[string]string{
		"prefix alone":        prefixV3,
		"half an id":          raw(id[:8]...),
		"no id":               raw(append(make([]byte, 16), 0, 0, 1, 1, 0)...),
		"no length":           with(),
		"no attempts":         with(0),
		"truncated bitmap":    with(9, kindRuns, 1, 1),
		"bitmap of no kind":   with(2, 7, 1, 0, 1, 1, 0),
		"half a run":          with(0, 0, 1, 1),
		"empty run":           with(0, 0, 0, 1, 0),
		"no failures":         with(0, 0, 1, 0, 1),
		"beyond the window":   with(0, 0xff, 0x3f, 2, 1, 0),
		"too many failures":   with(0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0x7f, 0),
		"short varint":        with(0, 0, 1, 1, 0x80),
		"padding":             with(0, 0, 1, 1, 0) + "=",
		"longer than brokers": prefixV3 + strings.Repeat("A", maxMetadata),
	} {
		if m, err := DecodeMetadata(text); err == nil || m.Topic != (topicname.ID{}) || m.Bitmap != (Bitmap{}) || m.Attempts != nil {
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
		m, err := DecodeMetadata(text)
		if err != nil {
			return
		}
		if m.Bitmap.N > Window || m.Bitmap.Has(0) || m.Attempts.span() > Window {
			t.Fatalf("%q: got %+v, want offsets within the window", text, m)
		}
		back, err := DecodeMetadata(m.Encode())
		if err != nil || back.Topic != m.Topic || back.Bitmap != m.Bitmap || !slices.Equal(back.Attempts, m.Attempts) {
			t.Fatalf("%q: round trip: got %+v and error %v, want %+v", text, back, err, m)
		}
	})
}
