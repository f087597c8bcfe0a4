package node

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/twmb/franz-go/pkg/kfake"

	"dispatcher/configs"
	"dispatcher/throttle"
)

// A node logs each finding once, and nothing where its context ends before the check.
func TestANodeLogsWhatItsSetupLacks(t *testing.T) {
	t.Parallel()
	kafka, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "jobs"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kafka.Close)
	mini := miniredis.RunT(t)
	mini.Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool { // as a real one answers
		if cmd == "INFO" {
			c.WriteBulk("run_id:1a\r\nmaster_replid:2b\r\nmaxmemory_policy:allkeys-lru")
		}
		return cmd == "INFO"
	})
	cfg, err := configs.Load(configs.Source{Set: []string{"kafka.brokers=" + kafka.ListenAddrs()[0], "redis.addrs=" + mini.Addr(), "admin.listen=", "limits.0.cap=1000"}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	n, err := New(cfg, slog.New(slog.NewTextHandler(&out, nil)), throttle.IdentityInfo)
	if err != nil {
		t.Fatal(err)
	}
	defer n.close()
	if !n.checkSetup {
		t.Error("a node with a real Redis does not check its set-up")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	n.tellSetup(ended, 0)
	if out.Len() > 0 {
		t.Errorf("got %q of a node that ends, want nothing", out.String())
	}
	n.tellSetup(t.Context(), 0)
	for _, want := range []string{"check=eviction level=warning found=\"maxmemory-policy is allkeys-lru", "check=workers level=warning found=\"256 workers are too few"} {
		if strings.Count(out.String(), want) != 1 {
			t.Errorf("got %q, want %q once", out.String(), want)
		}
	}
	if lines := strings.Count(out.String(), "\n"); lines != 2 {
		t.Errorf("got %d lines, want 2: %s", lines, out.String())
	}
}
