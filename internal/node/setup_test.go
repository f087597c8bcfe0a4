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

// A node logs each finding once, under keys that are not the log's own, and nothing where its context ends before the check.
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
	cfg, err := configs.Load(configs.Source{Set: []string{"kafka.brokers=" + kafka.ListenAddrs()[0], "redis.addrs=" + mini.Addr(), "admin.listen=", "limits.0.cap=1000", "limits.0.lateness=90ms"}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	n, err := New(cfg, slog.New(slog.NewJSONHandler(&out, nil)), throttle.IdentityInfo)
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
	for _, want := range []string{
		`"level":"WARN","msg":"the set-up lacks something","check":"eviction","severity":"warning","found":"maxmemory-policy is allkeys-lru`,
		`"level":"WARN","msg":"the set-up lacks something","check":"workers","severity":"warning","found":"256 workers are too few`,
	} {
		if strings.Count(out.String(), want) != 1 {
			t.Errorf("got %q, want %q once", out.String(), want)
		}
	}
	if lines, levels := strings.Count(out.String(), "\n"), strings.Count(out.String(), `"level":`); lines != 2 || levels != 2 {
		t.Errorf("got %d lines with %d levels, want 2 and 2: %s", lines, levels, out.String())
	}
}

// Nodes share the check where what concerns all of them is the same.
func TestNodesOfAFleetNameTheirSettingsAlike(t *testing.T) {
	t.Parallel()
	name := func(set ...string) string {
		cfg, err := configs.Load(configs.Source{Set: append(set, "redis.password=one-of-many")})
		if err != nil {
			t.Fatal(err)
		}
		return sharedSettings(cfg)
	}
	usual := name()
	if len(usual) != 16 || name("node=n2", "admin.listen=127.0.0.1:1", "log.level=debug") != usual {
		t.Errorf("got %q, and another name on another node", usual)
	}
	for _, set := range []string{"limits.0.cap=7", "kafka.topics=other", "dedup.enabled=true", "redis.username=fleet"} {
		if name(set) == usual {
			t.Errorf("with %s: got the same name", set)
		}
	}
}
