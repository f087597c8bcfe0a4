package throttle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/internal/containers"
	"dispatcher/throttle/internal/script"
)

// Whether a master may have lost writes is seen from what replication
// does anyway: a replica that attaches, and a backlog that is dropped, change the
// id of the history too.
func TestWhatCountsAsAnotherMasterReal(t *testing.T) {
	t.Parallel()
	set := containers.RedisSetOf(t, 2, nil)
	args := []string{"--repl-backlog-ttl", "1", "--appendonly", "yes", "--appendfsync", "always"}
	a := set.Start(append(args, "--appenddirname", "a", "--appendfilename", "a")...)
	on := func(port int) *redis.Client {
		rdb := redis.NewClient(&redis.Options{Addr: fmt.Sprint("127.0.0.1:", port)})
		t.Cleanup(func() { _ = rdb.Close() })
		return rdb
	}
	known, epoch := seeded(contract(300)), int64(0)
	asks := func(port int, want script.Cooldown, when string) {
		t.Helper()
		b, err := script.NewScripts(on(port), "ns", "provider", "n").Reserve(t.Context(), script.Ask{Seq: 1, Epoch: epoch, Identity: string(IdentityInfo), Learned: epoch != 0, Known: known})
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if b.Cooldown != want {
			t.Errorf("%s: got %v, want %v", when, b.Cooldown, want)
		}
		known, epoch = b.Settings, b.Epoch
	}
	history := func(port int) string {
		info := on(port).Info(t.Context(), "replication").Val()
		_, after, _ := strings.Cut(info, "master_replid:")
		id, _, _ := strings.Cut(after, "\r\n")
		return id
	}
	await := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("waited in vain for %s", what)
			}
		}
	}
	follows := func(port, master int) {
		t.Helper()
		on(port).Do(t.Context(), "replicaof", "127.0.0.1", master)
		await("the replica", func() bool {
			return strings.Contains(on(port).Info(t.Context(), "replication").Val(), "master_link_status:up")
		})
	}

	asks(a, script.CooldownSettingsLost, "at the start")
	first := history(a)
	b := set.Start("--repl-backlog-ttl", "1")
	follows(b, a)
	if history(a) == first {
		t.Error("the id of the history did not change with the first replica; so the test proves nothing")
	}
	asks(a, script.CooldownNone, "after the first replica attached")
	second := history(a)
	on(b).Do(t.Context(), "replicaof", "no", "one")
	await("the end of the backlog", func() bool { return history(a) != second })
	asks(a, script.CooldownNone, "after the backlog was dropped")
	follows(b, a)
	asks(a, script.CooldownNone, "after a replica attached again")
	on(b).Do(t.Context(), "replicaof", "no", "one")
	asks(b, script.CooldownOtherMaster, "after a promotion")
	follows(a, b)
	on(a).Do(t.Context(), "replicaof", "no", "one")
	asks(a, script.CooldownOtherMaster, "after the fail-back")
	asks(a, script.CooldownNone, "after that")
	// The former master takes over again before the other one has granted anything.
	follows(b, a)
	on(b).Do(t.Context(), "replicaof", "no", "one")
	follows(a, b)
	on(a).Do(t.Context(), "replicaof", "no", "one")
	asks(a, script.CooldownOtherMaster, "after two promotions between two calls")
	set.Kill(a)
	set.Again(a, append(args, "--appenddirname", "a", "--appendfilename", "a")...)
	asks(a, script.CooldownOtherMaster, "after a restart")
}
