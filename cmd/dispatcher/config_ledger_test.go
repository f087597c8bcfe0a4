package main

import "testing"

func TestConfigCheckTellsOfTheSendLedger(t *testing.T) {
	t.Parallel()
	dispatcher(t.Context(), "", nil, "config", "check", "--set", "ledger.enabled=true", "--set", "sender.on_unknown=park").
		mustPrint(t, "send ledger", "24h", "7s", "such a job goes to <topic>.parked", "config ok")
	dispatcher(t.Context(), "", nil, "config", "check", "--set", "ledger.enabled=true", "--set", "limits.0.scope=node").
		mustFail(t, "ledger.enabled: true: can't be together with scope: node")
}
