//go:build !nodemo

package main

import (
	"strings"
	"testing"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/cmd/dispatcher/internal/clitest"
	"dispatcher/configs"
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
	demo := func(flag string) clitest.Outcome {
		return clitest.Run(t.Context(), newDemoCommand, "", nil, "demo", "--jobs=5", "--nodes=1", "--json", flag)
	}
	demo("--config=/no/such/file").MustFail(t, "demo: -c /no/such/file: the demo reads no file; use --set path=value")
	demo("--set=no.such.key=1").MustFail(t, "--set no.such.key")
	if got := demo("--set=limits.0.cap=7").Out; !strings.Contains(got, `"cap":7`) { // whatever the verdict
		t.Errorf("got %s, want a run under a cap of 7", got)
	}
}
