package loglevel_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dispatcher/internal/loglevel"
)

func TestALevelReturnsByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		level := loglevel.New(slog.LevelInfo)
		var text strings.Builder
		log := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: level})).With("node", "n1")
		log.Debug("first")
		level.Set(slog.LevelDebug, time.Minute)
		log.Debug("second")
		if in, until := level.State(); in != slog.LevelDebug || time.Until(until) != time.Minute || level.Usual() != slog.LevelInfo {
			t.Errorf("got %v until %v, usually %v", in, until, level.Usual())
		}
		time.Sleep(time.Minute)
		log.Debug("third")
		if in, until := level.State(); in != slog.LevelInfo || !until.IsZero() {
			t.Errorf("got %v until %v, want the usual level", in, until)
		}
		level.Set(slog.LevelError, 0)
		time.Sleep(24 * time.Hour)
		log.Warn("fourth")
		log.Error("fifth")
		if got := text.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "second") || !strings.Contains(got, "fifth") {
			t.Errorf("got %s, want the second and the fifth line", got)
		}
	})
}
