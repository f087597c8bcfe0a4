package configcmd

import (
	"testing"

	"dispatcher/cmd/dispatcher/internal/clitest"
)

func TestConfigCheckShowsTheDedupStore(t *testing.T) {
	t.Parallel()
	clitest.Run(t.Context(), New, "", nil, "config", "check", "--set", "dedup.enabled=true", "--set", "sender.on_unknown=park").
		MustPrint(t, "dedup store", "24h", "7s", "such a job goes to <topic>.parked", "config ok")
	clitest.Run(t.Context(), New, "", nil, "config", "check", "--set", "dedup.enabled=true", "--set", "limits.0.scope=node").
		MustFail(t, "dedup.enabled: true: can't be together with scope: node")
}
