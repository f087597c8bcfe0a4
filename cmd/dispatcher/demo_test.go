//go:build !nodemo

package main

import (
	"strings"
	"testing"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/cmd/dispatcher/internal/clitest"
	"dispatcher/configs"
	"dispatcher/internal/demo"
)

func TestTheDemoRefusesOtherServers(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ set, want string }{
		{"kafka.brokers=kafka:9092", "demo: --set kafka.brokers: the demo has a kafka.brokers of its own"},
		{"redis.addrs=redis:6379", "demo: --set redis.addrs: the demo has a redis of its own"},
	} {
		err := checkDemoSettings(&cli.Settings{Source: configs.Source{Set: []string{row.set}}})
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("got %v, want %s", err, row.want)
		}
	}
}

func TestTheDemoTakesSettingsAndNoFile(t *testing.T) {
	t.Parallel()
	run := func(flag string) clitest.Outcome {
		return clitest.Run(t.Context(), newDemoCommand, "", nil, "demo", "--jobs=5", "--nodes=1", "--json", flag)
	}
	run("--config=/no/such/file").MustFail(t, "demo: -c /no/such/file: the demo reads no file; use --set path=value")
	run("--set=no.such.key=1").MustFail(t, "--set no.such.key")
	if got := run("--set=limits.0.cap=7").Out; !strings.Contains(got, `"cap":7`) { // whatever the verdict
		t.Errorf("got %s, want a run under a cap of 7", got)
	}
}

func TestTheVerdictSaysWhyItIsNotOK(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		v    demo.Summary
		want string
	}{
		{demo.Summary{Excess: 7}, "NOT OK: there were 7 calls more than all windows together allow"},
		{demo.Summary{Unproven: true, Unjudged: 0.98}, "NOT OK: only 2 % of the windows could be judged"},
		{demo.Summary{Limits: []demo.Judged{{Name: "sender", Excess: 3}}}, "NOT OK: there were 3 more of the limit sender"},
	} {
		if got := headline(row.v); !strings.Contains(got, row.want) {
			t.Errorf("got %s, want %s", got, row.want)
		}
	}
}
