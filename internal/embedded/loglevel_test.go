package embedded_test

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"dispatcher/internal/background"
	"dispatcher/internal/embedded"
	"dispatcher/internal/loglevel"
	"dispatcher/internal/node"
	"dispatcher/throttle"
)

// An operator changes the level of a node that runs, by its admin server.
func TestTheLogLevelOfANodeIsChanged(t *testing.T) {
	t.Parallel()
	p := begin(t, embedded.Options{Partitions: 1})
	cfg, err := p.Config("admin.listen=127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	level := loglevel.New(slog.LevelInfo)
	n, err := node.New(cfg, logger(t), throttle.IdentityNone, node.WithLevel(level))
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, n.Run)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+n.AdminAddr()+"/api/v1/log", strings.NewReader(`{"level":"debug","for":"1h"}`))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || level.Level() != slog.LevelDebug {
		t.Errorf("got %d %v, the level %v and %s", resp.StatusCode, err, level.Level(), text)
	}
}
