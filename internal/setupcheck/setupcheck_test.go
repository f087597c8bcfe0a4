package setupcheck_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"dispatcher/configs"
	"dispatcher/internal/containers"
	"dispatcher/internal/redisclient"
	"dispatcher/internal/setupcheck"
	"dispatcher/throttle"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
)

// scene is a set-up: a sound one, where a test leaves it alone.
type scene struct {
	*testing.T
	addr string
	opts setupcheck.Options
}

func newScene(t *testing.T, addr string, settings ...string) *scene {
	t.Helper()
	source := configs.Source{Set: settings}
	if len(settings) == 2 && settings[0] == "-c" {
		source = configs.Source{File: settings[1]}
	}
	cfg, err := configs.Load(source)
	if err != nil {
		t.Fatal(err)
	}
	return &scene{T: t, addr: addr, opts: setupcheck.Options{
		Config: cfg, Identity: throttle.IdentityInfo, Lead: 5 * time.Millisecond,
		Partitions: func(context.Context) (map[string]int, error) { return map[string]int{"jobs": 2}, nil },
	}}
}

func (s *scene) client(addr, user, password string) redis.UniversalClient {
	s.Helper()
	rdb := redisclient.New(redisclient.Options{Addrs: []string{addr}, Username: user, Password: password, Timeout: 5 * time.Second})
	s.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// finds expects exactly these findings, each as the beginning of "level check: text".
func (s *scene) finds(want ...string) {
	s.Helper()
	if s.opts.Redis == nil {
		s.opts.Redis = s.client(s.addr, "", "")
	}
	findings := setupcheck.Run(s.Context(), s.opts)
	var got []string
	fits := len(findings) == len(want)
	for i, f := range findings {
		got = append(got, fmt.Sprintf("%s %s", f.Level, f))
		fits = fits && strings.HasPrefix(got[i], want[i]) && f.Remedy != ""
	}
	if !fits {
		s.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// nodes has so many nodes work with the limit, until the test ends.
func (s *scene) nodes(count int, identity throttle.Identity) {
	s.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, count)
	for i := range count {
		l, err := throttle.New(throttle.Options{
			Redis: s.client(s.addr, "", ""), Namespace: "default", Name: "provider", Node: fmt.Sprint("n", i),
			Limit: s.opts.Config.Limits[0].Stated(), Identity: identity,
		})
		if err != nil {
			s.Fatal(err)
		}
		go func() { ended <- l.Run(ctx) }()
	}
	s.Cleanup(func() {
		cancel()
		for range count {
			if err := <-ended; err != nil {
				s.Error(err)
			}
		}
	})
	c, err := control.NewControl(s.client(s.addr, "", ""), "default", "provider")
	if err != nil {
		s.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		list, err := c.Nodes(s.Context())
		if len(list) == count {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("got %d nodes (%v), want %d", len(list), err, count)
		}
	}
}

// mini is an embedded Redis that answers INFO as a real one does, with these lines beside what the scripts read.
func mini(t *testing.T, lines ...string) *miniredis.Miniredis {
	t.Helper()
	m := miniredis.RunT(t)
	text := strings.Join(append([]string{"run_id:1a", "master_replid:2b", "maxmemory_policy:noeviction", "aof_enabled:0"}, lines...), "\r\n")
	hook(m, func(c *server.Peer, cmd string, _ []string) bool {
		if cmd == "INFO" {
			c.WriteBulk(text)
		}
		return cmd == "INFO"
	})
	return m
}

func hook(m *miniredis.Miniredis, h func(c *server.Peer, cmd string, args []string) bool) {
	m.Server().SetPreHook(func(c *server.Peer, cmd string, args ...string) bool { return h(c, cmd, args) })
}

const sound = "" // no finding

func TestASoundSetupIsSilent(t *testing.T) {
	t.Parallel()
	s := newScene(t, mini(t).Addr())
	s.finds()
	s.nodes(2, throttle.IdentityInfo)
	s.finds()
}

func TestEvictionAndPersistence(t *testing.T) {
	t.Parallel()
	beside := func(limit string) []string {
		file := filepath.Join(t.TempDir(), "limits.yaml")
		if err := os.WriteFile(file, []byte("limits: [{name: provider, cap: 400, window: 1s}, "+limit+"]"), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{"-c", file}
	}
	quota := beside("{name: daily, key: job.key, cap: 9, calendar: day, on_lost: wait}")
	gate := beside("{name: recipient, key: job.key, cap: 9, window: 1s}")
	for name, row := range map[string]struct {
		info     []string
		settings []string
		want     string
	}{
		"allkeys-lru":                   {[]string{"maxmemory_policy:allkeys-lru"}, nil, "warning eviction: maxmemory-policy is allkeys-lru"},
		"allkeys-random":                {[]string{"maxmemory_policy:allkeys-random"}, nil, "warning eviction: maxmemory-policy is allkeys-random"},
		"volatile spares the limit":     {[]string{"maxmemory_policy:volatile-lru"}, nil, sound},
		"volatile and a gate":           {[]string{"maxmemory_policy:volatile-lru"}, gate, "fault eviction: maxmemory-policy is volatile-lru: when its memory is full, Redis may drop the counts of the limit recipient"},
		"volatile and a quota":          {[]string{"maxmemory_policy:volatile-ttl", "aof_enabled:1"}, quota, "fault eviction: maxmemory-policy is volatile-ttl: when its memory is full, Redis may drop the counts of the limit daily"},
		"allkeys and a gate":            {[]string{"maxmemory_policy:allkeys-lru"}, gate, "fault eviction: maxmemory-policy is allkeys-lru"},
		"allkeys and calls in flight":   {[]string{"maxmemory_policy:allkeys-lru"}, []string{"limits.0.max_in_flight=9"}, "fault eviction: maxmemory-policy is allkeys-lru: when its memory is full, Redis may drop the count of calls in flight"},
		"volatile and calls in flight":  {[]string{"maxmemory_policy:volatile-lru"}, []string{"limits.0.max_in_flight=9"}, sound},
		"volatile and the dedup store":  {[]string{"maxmemory_policy:volatile-lru", "aof_enabled:1"}, []string{"dedup.enabled=true"}, "fault eviction: maxmemory-policy is volatile-lru"},
		"the dedup store without a log": {nil, []string{"dedup.enabled=true"}, "warning persistence: Redis keeps no log and has no replica: after a restart the dedup store"},
		"with a replica":                {[]string{"connected_slaves:1"}, []string{"dedup.enabled=true"}, sound},
		"a quota of a key":              {nil, quota, "warning persistence: Redis keeps no log and has no replica: after a restart the counts of the quota daily"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, mini(t, row.info...).Addr(), row.settings...)
			if row.want == sound {
				s.finds()
				return
			}
			s.finds(row.want)
		})
	}
}

// A missing right is named by command and key, and hides what follows from it.
func TestAMissingRightIsNamed(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"HSET":      "fault rights: the account default may not call HSET on dispatcher:{default}:*: nothing is sent; ACL SETUSER default +hset",
		"INFO":      "fault rights: the account default may not call INFO",
		"TIME":      "fault rights: the account default may not call TIME",
		"EVALSHA":   "fault rights: the account default may not call EVALSHA",
		"PUBLISH":   "warning rights: the account default may not call PUBLISH",
		"SUBSCRIBE": "warning rights: the account default may not call SUBSCRIBE",
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			m := mini(t)
			hook(m, func(c *server.Peer, cmd string, _ []string) bool {
				switch cmd {
				case command:
					c.WriteError("NOPERM User default has no permissions to run the '" + strings.ToLower(command) + "' command")
				case "INFO":
					c.WriteBulk("run_id:1a\r\nmaster_replid:2b\r\nmaxmemory_policy:noeviction")
				default:
					return false
				}
				return true
			})
			newScene(t, m.Addr()).finds(want)
		})
	}
}

func TestARoundTripThatIsTooLong(t *testing.T) {
	t.Parallel()
	s := newScene(t, mini(t).Addr())
	p := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), t.Name(), "127.0.0.1:0", s.addr)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	if _, err := p.Toxics.AddToxicJson(strings.NewReader(`{"name": "far", "type": "latency", "stream": "downstream", "attributes": {"latency": 5}}`)); err != nil {
		t.Fatal(err)
	}
	s.opts.Redis = s.client(p.Listen, "", "")
	s.finds("fault round_trip: the round trip to Redis is ")

	s.opts.Config.Limits[0].Lateness, s.opts.Config.Limits[0].Guard = 40*time.Millisecond, "90ms"
	s.finds()
	s.opts.Config.Limits[0].Horizon, s.opts.Lead = 20*time.Millisecond, 16*time.Millisecond
	s.finds("warning round_trip: the round trip to Redis is ")
}

// The clock of the host is an argument: 2 s ahead of Redis's, and behind it.
func TestAClockThatIsWrong(t *testing.T) {
	t.Parallel()
	m := mini(t)
	for by, want := range map[time.Duration]string{
		2 * time.Second:  "warning clock: this host's clock is 2s ahead of Redis's: not-before, not-after",
		-2 * time.Second: "warning clock: this host's clock is 2s behind Redis's",
	} {
		s := newScene(t, m.Addr())
		s.opts.Now = func() time.Time { return time.Now().Add(by) }
		s.finds(want)
	}
}

func TestFewerPartitionsThanNodes(t *testing.T) {
	t.Parallel()
	s := newScene(t, mini(t).Addr())
	s.nodes(3, throttle.IdentityInfo)
	s.finds("warning partitions: topic jobs has 2 partitions for 3 nodes: 1 of them get no jobs of it")
	s.opts.Partitions = func(context.Context) (map[string]int, error) { return map[string]int{"jobs": 3}, nil }
	s.finds()
}

// A fleet that stands still for longer than Kafka keeps its offsets begins where start_at says.
func TestJobsThatOutliveTheOffsets(t *testing.T) {
	t.Parallel()
	const week = 7 * 24 * time.Hour
	m := mini(t)
	for name, row := range map[string]struct {
		settings []string
		offsets  time.Duration
		want     []string
	}{
		"as long":   {nil, week, nil},
		"not shown": {nil, 0, nil},
		"longer": {nil, week - time.Hour, []string{
			"warning retention: topic jobs keeps its records for longer than the 167h for which Kafka keeps the offsets of a group without nodes: " +
				"a fleet that stood still for so long calls all jobs that the topic still holds again; " +
				"raise the brokers' offsets.retention.minutes above retention.ms of jobs, or lower that to 601200000",
		}},
		"longer, from the end": {[]string{"kafka.start_at=last"}, time.Hour, []string{
			"warning retention: topic jobs keeps its records for longer than the 1h for which Kafka keeps the offsets of a group without nodes: " +
				"a fleet that stood still for so long passes over the jobs that wait",
			"warning retention: topic jobs.retry.1m keeps",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, m.Addr(), row.settings...)
			s.opts.Retention = func(context.Context) (time.Duration, map[string]time.Duration, error) {
				return row.offsets, map[string]time.Duration{"jobs": week, "jobs.retry.1m": 2 * time.Hour}, nil
			}
			s.finds(row.want...)
		})
	}
}

func TestTooFewWorkers(t *testing.T) {
	t.Parallel()
	m := mini(t)
	for name, row := range map[string]struct {
		settings []string
		latency  time.Duration
		want     string
	}{
		"as usual":                  {[]string{"limits.0.cap=1000"}, 0, "warning workers: 256 workers are too few: 307 are busy at 990 calls a second on each of 1 nodes if a call takes 300ms, which is usual; raise kafka.workers to 614 or more"},
		"measured, slow":            {[]string{"limits.0.cap=1000"}, 2 * time.Second, "warning workers: 256 workers are too few: 1991 are busy"},
		"measured, fast":            {[]string{"limits.0.cap=1000"}, 100 * time.Millisecond, sound},
		"no call outlasts the time": {[]string{"limits.0.cap=1000", "sender.http.timeout=200ms"}, 0, sound},
		"calls in flight are few":   {[]string{"limits.0.cap=1000", "limits.0.max_in_flight=200"}, 0, sound},
		"jobs count several units":  {[]string{"limits.0.cap=10000", "limits.0.max_cost=100"}, 0, sound},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, m.Addr(), row.settings...)
			s.opts.Latency = row.latency
			if row.want == sound {
				s.finds()
				return
			}
			s.finds(row.want)
		})
	}
}

// Of nodes that have their settings in common, one a minute checks what concerns the fleet. Each looks at its own host.
func TestNodesShareTheChecks(t *testing.T) {
	t.Parallel()
	const both, own = "warning eviction: maxmemory-policy is allkeys-lru", "warning workers: 256 workers are too few"
	m := mini(t, "maxmemory_policy:allkeys-lru")
	s := newScene(t, m.Addr(), "limits.0.cap=1000")
	s.opts.Fleet = "a"
	s.finds(both, own)
	s.finds(own)
	s.opts.Fleet = "b"
	s.finds(both, own)
	s.opts.Fleet = "" // an operator asks
	s.finds(both, own)
	s.opts.Fleet = "a"
	m.FastForward(time.Minute)
	s.finds(both, own)
}

// A node that has the turn, but lost the reply that said so, checks for the fleet.
func TestATurnWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	m := mini(t, "maxmemory_policy:allkeys-lru")
	lost := 0
	m.Server().SetPreHook(func(c *server.Peer, cmd string, args ...string) bool {
		switch {
		case cmd == "INFO":
			c.WriteBulk("run_id:1a\r\nmaster_replid:2b\r\nmaxmemory_policy:allkeys-lru")
		case cmd == "SET" && strings.Contains(args[0], ":turn:") && lost == 0:
			lost++
			if err := m.Set(args[0], args[1]); err != nil {
				t.Error(err)
			}
			c.Close()
		default:
			return false
		}
		return true
	})
	s := newScene(t, m.Addr())
	s.opts.Fleet = "a"
	s.finds("warning eviction: maxmemory-policy is allkeys-lru")
	if lost != 1 {
		t.Errorf("lost %d replies, want 1", lost)
	}
}

// A Redis that is away is one finding, and what needs no Redis is checked all the same.
func TestRedisIsAway(t *testing.T) {
	t.Parallel()
	s := newScene(t, "127.0.0.1:1", "limits.0.cap=1000")
	s.opts.Redis = s.client(s.addr, "", "")
	findings := setupcheck.Run(t.Context(), s.opts)
	if len(findings) != 2 || findings[0].Check != "redis" || findings[0].Level != setupcheck.Fault || findings[1].Check != "workers" {
		t.Errorf("got %v, want redis and workers", findings)
	}
}

// The rights that are checked are those that the documentation gives a node, but for what a connection needs.
func TestTheRightsAreThoseOfTheDocumentation(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(text), "ACL SETUSER dispatcher ")
	line, _, _ = strings.Cut(line, "\n")
	checked := 0
	for word := range strings.FieldsSeq(line) {
		right, ok := strings.CutPrefix(word, "+")
		if !ok || right == "hello" || right == "auth" || right == "ping" || right == "client|setname" {
			continue
		}
		checked++
		m := mini(t)
		hook(m, func(c *server.Peer, cmd string, _ []string) bool {
			if cmd == strings.ToUpper(right) {
				c.WriteError("NOPERM User default has no permissions to run the '" + right + "' command")
			}
			return cmd == strings.ToUpper(right)
		})
		s := newScene(t, m.Addr())
		s.opts.Redis, s.opts.Identity = s.client(s.addr, "", ""), throttle.IdentityNone
		findings := setupcheck.Run(t.Context(), s.opts)
		if len(findings) == 0 || findings[0].Check != "rights" || !strings.Contains(findings[0].Found, strings.ToUpper(right)) {
			t.Errorf("without +%s: got %v, want the right named first", right, findings)
		}
	}
	if checked < 20 {
		t.Errorf("found %d rights in %q", checked, line)
	}
}

// On a real Redis: a sound one, one that drops keys, and accounts that lack a command, the keys or the channel.
func TestSetupReal(t *testing.T) {
	t.Parallel()
	s := newScene(t, containers.Redis(t).Addr)
	s.finds()
	admin := s.client(s.addr, "", "")
	if err := admin.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err(); err != nil {
		t.Fatal(err)
	}
	s.finds("warning eviction: maxmemory-policy is allkeys-lru")
	if err := admin.ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err(); err != nil {
		t.Fatal(err)
	}

	const all = "resetchannels &dispatcher:{default}:* ~dispatcher:{default}:* -@all +eval +evalsha +time +info +hmget +hset +hget +hdel +hexists +hgetall +hincrby " +
		"+get +mget +set +del +exists +persist +pexpire +xadd +publish +subscribe +hello +auth +ping +client|setname"
	for _, row := range []struct{ less, want string }{
		{"", sound},
		{"-hset", "fault rights: the account fleet may not call HSET on dispatcher:{default}:*: nothing is sent; ACL SETUSER fleet +hset"},
		{"-info", "fault rights: the account fleet may not call INFO on"},
		{"-evalsha", "fault rights: the account fleet may not call EVALSHA on"},
		{"-publish", "warning rights: the account fleet may not call PUBLISH on"},
		{"-hincrby", "warning rights: the account fleet may not call HINCRBY on dispatcher:{default}:*: the page and dispatcher status show no node; ACL SETUSER fleet +hincrby"},
		{"-subscribe", "warning rights: the account fleet may not call SUBSCRIBE on"},
		{"resetchannels", "warning rights: the account fleet may not call PUBLISH on dispatcher:{default}:*: nodes see a change only when they poll; ACL SETUSER fleet &dispatcher:{default}:*"},
		{"resetkeys ~other:*", "fault rights: the account fleet may not call EVAL on dispatcher:{default}:*: nothing is sent; ACL SETUSER fleet ~dispatcher:{default}:*"},
	} {
		t.Log(row.less)
		args := []any{"acl", "setuser", "fleet", "reset", "on", ">word"}
		for word := range strings.FieldsSeq(all + " " + row.less) {
			args = append(args, word)
		}
		if err := admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
		s.opts.Config.Redis.Username = "fleet"
		s.opts.Redis = s.client(s.addr, "fleet", "word")
		if row.want == sound {
			s.finds()
			continue
		}
		s.finds(row.want)
	}
	s.opts.Redis = admin
	s.opts.Config.Limits[0].Algorithm = limit.SlidingWindowLog
	s.finds()
	if left, err := admin.Keys(t.Context(), "*").Result(); err != nil || len(left) != 0 {
		t.Errorf("left %v (%v), want nothing", left, err)
	}
}
