package main

import (
	"context"
	"strings"
	"testing"
)

func TestFlagsThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"control for all":  {[]string{"-control", "0.0.0.0:0"}, `-control: "0.0.0.0:0" is not on the loopback`},
		"control nowhere":  {[]string{"-control", "here"}, `-control: "here" is not host:port`},
		"negative latency": {[]string{"-latency", "-1s"}, "latency -1s"},
		"address":          {[]string{"-listen", "127.0.0.1:99999"}, "127.0.0.1:99999"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // it ends at once if it begins at all
			if err := run(ctx, c.args); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}
