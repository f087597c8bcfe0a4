package main

import "testing"

func TestConfigCheckShowsTheDedupStore(t *testing.T) {
	t.Parallel()
	dispatcher(t.Context(), "", nil, "config", "check", "--set", "dedup.enabled=true", "--set", "sender.on_unknown=park").
		mustPrint(t, "dedup store", "24h", "7s", "such a job goes to <topic>.parked", "config ok")
	dispatcher(t.Context(), "", nil, "config", "check", "--set", "dedup.enabled=true", "--set", "limits.0.scope=node").
		mustFail(t, "dedup.enabled: true: can't be together with scope: node")
}
