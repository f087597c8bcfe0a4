package dlqcmd

import (
	"log/slog"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"dispatcher/cmd/dispatcher/internal/clitest"
	"dispatcher/internal/redisclient"
	"dispatcher/internal/redrive"
)

func TestDLQRunsListsWhatRunsInTheBackground(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	run := func(args ...string) clitest.Outcome {
		return clitest.Run(t.Context(), New, "", []string{"DISPATCHER_REDIS_ADDRS=" + server.Addr()}, append([]string{"dlq", "runs"}, args...)...)
	}
	run().MustPrint(t, "no replay or drop was started over HTTP")
	if o := run("--json"); o.Err != nil || o.Out != "[]\n" {
		t.Errorf("got %q and %v, want an empty list", o.Out, o.Err)
	}
	server.SetTime(time.Unix(1_800_000_000, 0))
	rdb := redisclient.New(redisclient.Options{Addrs: []string{server.Addr()}})
	t.Cleanup(func() { _ = rdb.Close() })
	node := redrive.New(redrive.Options{Store: redrive.NewStore(rdb, "default"), Node: "node-1", Logger: slog.New(slog.DiscardHandler)})
	if _, err := node.Start(t.Context(), redrive.Request{Kind: redrive.Replay, Topic: "jobs", Rate: 5, By: "anna\x1b[2J", Why: "fixed"}); err != nil {
		t.Fatal(err)
	}
	run().MustPrint(t, "RUN", "20270115-080000-", "replay", "running", "0 of 0", `anna\x1b[2J`, "fixed")
	run("--json").MustPrint(t, `"state":"running"`, `"rate":5`, `"node":"node-1"`)
	server.SetTime(time.Unix(1_800_000_011, 0))
	run().MustPrint(t, "lost")
}
