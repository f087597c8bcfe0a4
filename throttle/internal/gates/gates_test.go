package gates_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"dispatcher/throttle/internal/gates"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

// A node says once where its file differs from what Redis holds of a gate. A change while it runs is no difference.
func TestAGateSaysWhereTheFileDiffers(t *testing.T) {
	t.Parallel()
	settings := func(revision, calls int64) limit.Settings {
		s := limit.Spec{Terms: limit.Terms{Gate: true, Contract: limit.Contract{Cap: calls, Window: time.Second, Burst: 1}}}.Settings()
		s.Revision = revision
		return s
	}
	first := limit.Terms{Contract: limit.Contract{Cap: 300, Window: time.Second, Burst: 1}}
	for _, c := range []struct {
		redis []limit.Settings // as replies name them
		want  string
	}{
		{[]limit.Settings{settings(1, 5), settings(2, 2)}, ""},
		{[]limit.Settings{settings(3, 2), settings(4, 1)}, `gate=recipient cap="2, and 5 in the file"`},
	} {
		var log bytes.Buffer
		file := settings(1, 5)
		known := gates.New([]gates.Gate{{Name: "recipient", Limit: limit.Spec{Terms: file.Terms}, Keyed: true}}, first,
			slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})), nil)
		for _, s := range c.redis {
			known.Take(script.Choice{Gates: []limit.Settings{s}}, 0, first)
		}
		if got := log.String(); !strings.Contains(got, c.want) || strings.Count(got, "\n") != min(len(c.want), 1) {
			t.Errorf("got the warnings %q, want one with %q alone, or none", got, c.want)
		}
	}
}
