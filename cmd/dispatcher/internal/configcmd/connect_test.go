package configcmd

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/twmb/franz-go/pkg/kfake"

	"dispatcher/cmd/dispatcher/internal/clitest"
)

// config check --connect says what each server answered, and names each that does
// not. It sends no job.
func TestCheckConnects(t *testing.T) {
	t.Parallel()
	var policy atomic.Value
	policy.Store("noeviction")
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, "jobs"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	redis := miniredis.RunT(t)
	redis.Server().SetPreHook(func(c *server.Peer, cmd string, _ ...string) bool { // as a real one answers
		if cmd == "INFO" {
			c.WriteBulk("run_id:1a\r\nmaster_replid:2b\r\nmaxmemory_policy:" + policy.Load().(string))
		}
		return cmd == "INFO"
	})
	provider := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the provider was called") }))
	t.Cleanup(provider.Close)
	good := []string{"--set", "kafka.brokers=" + cluster.ListenAddrs()[0], "--set", "redis.addrs=" + redis.Addr(), "--set", "sender.http.url=" + provider.URL + "/send?key=s3cret"}
	check := func(with ...string) clitest.Outcome {
		return clitest.Run(t.Context(), New, "", nil, append(append([]string{"config", "check", "--connect"}, good...), with...)...)
	}
	check().MustPrint(t, "kafka "+cluster.ListenAddrs()[0]+": topics jobs have 3 partitions",
		"redis "+redis.Addr()+": does not know limit provider yet; the first node seeds it",
		"provider "+provider.URL+": a connection was opened, TLS included; nothing was sent", "config ok")

	free, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := free.Addr().String()
	_ = free.Close()
	for setting, want := range map[string]string{
		"kafka.brokers=" + nobody:                    "config check: kafka at " + nobody + ": connect to " + nobody,
		"kafka.topics=jbos":                          "topic jbos does not exist: create it first, or correct the name",
		"redis.addrs=" + nobody:                      "config check: redis at " + nobody + ": ",
		"sender.http.url=http://" + nobody + "/send": "config check: provider at http://" + nobody + ": connect: dial tcp " + nobody + ": connect: connection refused",
		"sender.http.url=" + strings.Replace(provider.URL, "http:", "https:", 1): "first record does not look like a TLS handshake",
	} {
		o := check("--set", setting)
		o.MustFail(t, want)
		if !strings.Contains(o.Out, "does not answer as it should") || strings.Contains(o.Out+o.Err.Error(), "s3cret") {
			t.Errorf("%s: got %q, want all servers and no secret", setting, o.Out)
		}
	}
	check("--json", "--set", "kafka.topics=jbos").MustFail(t, "jbos")

	// What the set-up lacks is shown. Only what stops the fleet makes the command fail.
	policy.Store("allkeys-lru")
	check().MustPrint(t, "warning: eviction: maxmemory-policy is allkeys-lru", "set maxmemory-policy noeviction", "config ok")
	check("--set", "dedup.enabled=true").MustFail(t, "config check: eviction: maxmemory-policy is allkeys-lru")
	var report checkReport
	if o := check("--json"); json.Unmarshal([]byte(o.Out), &report) != nil || len(report.Setup) != 1 || report.Setup[0].Check != "eviction" {
		t.Errorf("got %s, want the finding", o.Out)
	}
}
