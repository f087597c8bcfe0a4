package throttle_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/internal/containers"
	"dispatcher/internal/redisclient"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit/parameters"
	"dispatcher/throttle/phase"
)

// rights are all that a node's account needs.
const (
	account  = "dispatcher"
	password = "fleetword"
	rights   = "resetchannels &dispatcher:{topology}:* ~dispatcher:{topology}:* -@all " +
		"+eval +evalsha +time +info +hmget +hset +hget +hdel +hexists +hgetall +hincrby +get +mget +set +del +exists +persist +pexpire +xadd +publish " +
		"+subscribe +hello +auth +ping +client|setname"
)

// Scripts that Redis forgets are sent again.
func TestRedisForgetsScriptsReal(t *testing.T) {
	t.Parallel()
	s := containers.Redis(t)
	f := startRealFleet(t, usual(), clients(t, 3, redisclient.Options{Addrs: []string{s.Addr}})...)
	f.works(time.Minute)
	other := client(t, redisclient.Options{Addrs: []string{s.Addr}})
	fault := time.Now()
	for range 100 {
		if err := other.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		pause(20 * time.Millisecond)
	}
	f.goesOn(fault)
	f.halt()
}

// Another program fills Redis's memory: whatever the policy, the cap holds;
// nodes wait with a clear state or work on, and work goes on afterwards.
func TestRedisOutOfMemoryReal(t *testing.T) {
	t.Parallel()
	policies := []string{"noeviction", "allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-random", "volatile-ttl"}
	s := containers.RedisSetOf(t, len(policies), nil)
	for _, policy := range policies {
		port := s.Start("--maxmemory", "6mb", "--maxmemory-policy", policy)
		f := startRealFleet(t, usual(), clients(t, 2, redisclient.Options{Addrs: containers.Addrs(port)})...)
		f.works(time.Minute)
		other := client(t, redisclient.Options{Addrs: containers.Addrs(port)})
		evicts := strings.HasPrefix(policy, "allkeys")
		from, full := time.Now(), false
		for i := 0; i < 10_000 && (time.Since(from) < time.Second || !evicts && !full); i++ {
			err := other.Set(t.Context(), fmt.Sprint("foreign", i), strings.Repeat("x", 30_000), 0).Err()
			full = full || err != nil && strings.Contains(err.Error(), "OOM")
			pause(2 * time.Millisecond)
		}
		during := len(f.since(from))
		if err := other.ConfigSet(t.Context(), "maxmemory", "5mb").Err(); err != nil { // now it is past the limit for certain
			t.Fatal(err)
		}
		if !evicts {
			f.says(0, phase.Refused, "OOM")
		}
		t.Logf("%s: %d calls while memory was filled; states:\n%s", policy, during, f.states())
		if err := other.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		f.works(time.Minute)
		f.halt()
	}
}

// An account that may do no more than what the limiter needs is enough, over
// TLS. With less, or where there is no way in, the state says so and nothing is
// given.
func TestRedisAccountsOverTLSReal(t *testing.T) {
	t.Parallel()
	admin, options := guarded(t)
	for _, row := range []struct{ name, less, refused string }{
		{"all that is needed", "", ""},
		{"without PUBLISH", "-publish", ""},
		{"without INFO", "-info", "IDENTITY"},
		{"without EVALSHA", "-evalsha -eval", "NOPERM"},
		{"without HSET", "-hset", "command"}, // each server has other words for it
		{"for another namespace", "resetkeys ~dispatcher:{other}:*", "NOPERM"},
	} {
		t.Log(row.name)
		allow(t, admin, rights+" "+row.less)
		if row.refused != "" {
			refuses(t, options, phase.Refused, row.refused)
			continue
		}
		f := startRealFleet(t, usual(), clients(t, 2, options)...)
		f.works(time.Minute)
		change(t, client(t, options))
		f.works(time.Minute)
		f.halt()
	}

	t.Log("a foreign key under the limit's name")
	allow(t, admin, rights)
	if err := errors.Join(admin.Del(t.Context(), limitKey).Err(), admin.Set(t.Context(), limitKey, "foreign", 0).Err()); err != nil {
		t.Fatal(err)
	}
	refuses(t, options, phase.Refused, "WRONGTYPE")
	options.Password = "wrong"
	refuses(t, options, phase.Refused, "WRONGPASS")
	options.TLS = newAuthority(t).client(t)
	refuses(t, options, phase.Away, "certificate")
	options.TLS = nil
	refuses(t, options, phase.Away, "")
}

// guarded starts a Redis that talks TLS only, and returns an administrator's
// client and a node's options.
func guarded(t *testing.T) (admin redis.UniversalClient, node redisclient.Options) {
	t.Helper()
	s, authority := encrypted(t, 1, map[string][]byte{
		"/tmp/users.acl": []byte("user default off\nuser admin on >adminword ~* &* +@all\n"),
	})
	port := s.Start("--aclfile", "/tmp/users.acl")
	options := redisclient.Options{Addrs: containers.Addrs(port), TLS: authority.client(t), Username: "admin", Password: "adminword"}
	admin = client(t, options)
	options.Username, options.Password = account, password
	return admin, options
}

// encrypted is a container for servers that talk TLS only.
func encrypted(t *testing.T, processes int, files map[string][]byte) (*containers.RedisSet, *authority) {
	t.Helper()
	a := newAuthority(t)
	cert, key := a.issue(t)
	all := map[string][]byte{"/tmp/ca.pem": a.pem, "/tmp/cert.pem": cert, "/tmp/key.pem": key}
	maps.Copy(all, files)
	s := containers.RedisSetOf(t, processes, all)
	s.TLS(containers.TLSFiles{Authority: "/tmp/ca.pem", Cert: "/tmp/cert.pem", Key: "/tmp/key.pem"})
	return s, a
}

// refuses says that a node comes into that phase and calls nothing.
func refuses(t *testing.T, o redisclient.Options, want phase.Phase, words string) {
	t.Helper()
	f := startRealFleet(t, usual(), client(t, o))
	f.says(0, want, words)
	f.halt()
	f.silent(time.Time{})
}

func allow(t *testing.T, admin redis.UniversalClient, rights string) {
	t.Helper()
	allowAs(t, admin, account, rights)
}

func allowAs(t *testing.T, admin redis.UniversalClient, name, rights string) {
	t.Helper()
	args := []any{"acl", "setuser", name, "reset", "on", ">" + password}
	for word := range strings.FieldsSeq(rights) {
		args = append(args, word)
	}
	if err := admin.Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
}

// change makes an operator's change that leaves the cap alone.
func change(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	c, err := control.NewControl(rdb, "topology", "provider")
	if err != nil {
		t.Fatal(err)
	}
	now, err := c.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	horizon := now.Horizon - 10*time.Millisecond // another one at each call
	if _, err := c.Set(t.Context(), control.Change{Values: parameters.Values{"horizon": horizon.String()}, By: "test", Why: "publish"}); err != nil {
		t.Errorf("change a setting: %v", err)
	}
}

// Valkey does what Redis does, a restart included.
func TestRedisIsValkeyReal(t *testing.T) {
	t.Parallel()
	s := containers.ValkeySetOf(t, 1)
	port := s.Start()
	f := startRealFleet(t, usual(), clients(t, 3, redisclient.Options{Addrs: containers.Addrs(port)})...)
	f.works(time.Minute)
	fault := time.Now()
	s.Kill(port)
	f.says(0, phase.Away, "")
	s.Again(port)
	f.goesOn(fault)
	f.halt()
}
