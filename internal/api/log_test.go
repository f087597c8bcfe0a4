package api_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"dispatcher/internal/api"
	"dispatcher/internal/auth"
	"dispatcher/internal/loglevel"
)

// The level of one node changes at once, and the log says who changed it.
func TestTheLogLevelIsChangedWhileTheNodeRuns(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	level := loglevel.New(slog.LevelInfo)
	log := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: level}))
	s := serveWith(t, auth.Options{Loopback: true}, api.Options{Level: level, Node: "node-1", Logger: log})
	s.must(s.get("log"), 200, `{"node":"node-1","level":"info","usual":"info"}`)
	for body, want := range map[string]string{
		``: `"field":"level"`, `{"level":"DEBUG"}`: "must be debug, info, warn, error", `{"level":"debug","for":"-1s"}`: `"field":"for"`,
		`{"level":"debug","for":"800h"}`: "must be at most 744h", `{"level":7}`: `"field":"level"`, `{"level":"debug","cap":3}`: `"field":"cap"`,
		`{"level":"debug","why":"` + strings.Repeat("ü", 201) + `"}`: "must have at most 200 characters",
	} {
		s.must(s.ask(http.MethodPut, "log", body), 422, want)
	}
	if level.Level() != slog.LevelInfo || text.Len() > 0 {
		t.Errorf("got the level %v and the log %q after refused changes", level.Level(), text.String())
	}
	s.must(s.ask(http.MethodPut, "log", `{"level":"debug","for":"10m","by":"anna","why":"a job is stuck"}`), 200, `"level":"debug"`, `"usual":"info"`, `"until":"20`)
	if level.Level() != slog.LevelDebug || !strings.Contains(text.String(), "to=debug") || !strings.Contains(text.String(), "anna") {
		t.Errorf("got the level %v and the log %q", level.Level(), text.String())
	}
	text.Reset()
	for _, by := range []string{"bert", "carla"} { // the level is error already when carla asks
		s.must(s.ask(http.MethodPut, "log", `{"level":"error","by":"`+by+`"}`), 200, `{"node":"node-1","level":"error","usual":"info"}`)
		if !strings.Contains(text.String(), "to=error") || !strings.Contains(text.String(), by) {
			t.Errorf("got the log %q, want the change by %s in it, which hides warnings", text.String(), by)
		}
	}
	s.must(serve(t).get("log"), 404, "does not change the level of its log")
}
