package configs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"dispatcher/configs"
	"dispatcher/consumer"
	"dispatcher/internal/auth"
	"dispatcher/sender"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

func environ(entries ...string) func() []string { return func() []string { return entries } }

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, src configs.Source) configs.Config {
	t.Helper()
	c, err := configs.Load(src)
	if err != nil {
		t.Fatalf("Load(%+v): %v", src.Set, err)
	}
	return c
}

func TestDefaultsAreValid(t *testing.T) {
	t.Parallel()
	c := load(t, configs.Source{})
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	want := []configs.Limit{{
		Name: "provider", Guard: parameters.Auto,
		Spec: limit.Spec{
			Terms: limit.Terms{Algorithm: "token_bucket", Contract: limit.Contract{
				Cap: 400, Window: time.Second, Burst: 1, MaxCost: 1, Lateness: 3 * time.Millisecond, Spread: 7 * time.Millisecond, Horizon: 200 * time.Millisecond,
			}},
			Bucket:   limit.Bucket{WhenFull: limit.FullWait},
			Degraded: limit.DegradedWait, Scope: limit.ScopeCluster,
		},
	}}
	if diff := cmp.Diff(want, c.Limits); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	if c.Kafka.Workers != 256 || c.Kafka.Drain != 7*time.Second || !c.Kafka.CreateTopics || c.Admin.Listen != "127.0.0.1:8080" {
		t.Errorf("got %+v and %+v", c.Kafka, c.Admin)
	}
}

func TestExamplesAreValid(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("k"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, src := range []configs.Source{
		{File: "default.yaml"},
		{File: "sms.yaml", Environ: environ("SMS_TOKEN=x")},
		{File: "llm.yaml", Set: []string{"sender.http.headers.x-api-key=${file:" + key + "}"}},
	} {
		if err := load(t, src).Validate(); err != nil {
			t.Errorf("%s: %v", src.File, err)
		}
	}
}

func TestLaterSourcesWin(t *testing.T) {
	t.Parallel()
	file := write(t, "kafka: {workers: 2, group: from-file, topics: [a]}\nnode: from-file\n")
	env := environ("DISPATCHER_KAFKA_WORKERS=3", "DISPATCHER_KAFKA_GROUP=from-env", "PATH=/bin")
	c := load(t, configs.Source{File: file, Environ: env, Set: []string{"kafka.workers=4", "kafka.workers=5"}})
	if c.Kafka.Workers != 5 || c.Kafka.Group != "from-env" || c.Node != "from-file" || c.Kafka.Session != 10*time.Second {
		t.Errorf("got %+v, node %q", c.Kafka, c.Node)
	}
}

func TestEnvironmentReachesEveryKind(t *testing.T) {
	t.Parallel()
	c := load(t, configs.Source{Environ: environ(
		"DISPATCHER_KAFKA_BROKERS=a:1, b:2",
		"DISPATCHER_KAFKA_CREATE_TOPICS=false",
		"DISPATCHER_KAFKA_TLS_CA_FILE=/ca.pem",
		"DISPATCHER_SENDER_HTTP_DIAL_TIMEOUT=4s",
		"DISPATCHER_SENDER_HTTP_HEADERS_X_API_KEY=k",
		"DISPATCHER_LIMITS_0_CAP=7",
		"DISPATCHER_LIMITS_0_WINDOW=2s",
		"DISPATCHER_CONFIG="+write(t, ""), "DISPATCHER_TEST_REDIS_IMAGE=x", "DISPATCHER_REQUIRE_DOCKER=1",
		"DISPATCHER_SERVICE_HOST=10.0.0.1", "DISPATCHER_PORT=tcp://10.0.0.1:8080", "DISPATCHER_PORT_8080_TCP=x",
		"DISPATCHER_REDIS_SERVICE_HOST=10.0.0.2", "DISPATCHER_REDIS_SERVICE_PORT=6379", "DISPATCHER_REDIS_SERVICE_PORT_TCP_REDIS=6379",
		"DISPATCHER_REDIS_PORT=tcp://10.0.0.2:6379", "DISPATCHER_REDIS_PORT_6379_TCP=x", "DISPATCHER_REDIS_PORT_6379_TCP_PROTO=tcp",
		"DISPATCHER_REDIS_PORT_6379_TCP_PORT=6379", "DISPATCHER_REDIS_PORT_6379_TCP_ADDR=10.0.0.2", "DISPATCHER_DNS_PORT_53_UDP=x",
		"DISPATCHER_LIMITS_PORT=tcp://10.0.0.3:80", "DISPATCHER_SENDER_HTTP_HEADERS_X_PORT=h",
	)})
	if diff := cmp.Diff([]string{"a:1", "b:2"}, c.Kafka.Brokers); diff != "" {
		t.Errorf("brokers (-want +got):\n%s", diff)
	}
	if c.Kafka.CreateTopics || c.Kafka.TLS.CAFile != "/ca.pem" || c.Sender.HTTP.DialTimeout != 4*time.Second {
		t.Errorf("got %+v", c)
	}
	if diff := cmp.Diff(map[string]string{"x-api-key": "k", "x-port": "h"}, c.Sender.HTTP.Headers); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if c.Limits[0].Cap != 7 || c.Limits[0].Window != 2*time.Second || c.Limits[0].Name != "provider" {
		t.Errorf("got %+v", c.Limits[0])
	}
}

// Lanes stand instead of topics, so the default topic gives way to them; topics
// that were stated do not.
func TestLanesReplaceTheDefaultTopic(t *testing.T) {
	t.Parallel()
	file := write(t, "kafka:\n  lanes:\n    - {name: otp, topics: [codes]}\n    - {name: bulk, topics: [news], min_share: 0.1}\n")
	c := load(t, configs.Source{File: file, Set: []string{"kafka.lanes.1.min_share=0.2", "kafka.lanes.2.name=rest", "kafka.lanes.2.topics=x,y"}})
	want := []consumer.Lane{
		{Name: "otp", Topics: []string{"codes"}}, {Name: "bulk", Topics: []string{"news"}, MinShare: 0.2}, {Name: "rest", Topics: []string{"x", "y"}},
	}
	if diff := cmp.Diff(want, c.Kafka.Lanes); diff != "" || len(c.Kafka.Topics) != 0 || c.Validate() != nil {
		t.Errorf("topics %v, fault %v, lanes (-want +got):\n%s", c.Kafka.Topics, c.Validate(), diff)
	}
	var many []string
	for i := range 12 { // so many that their places have two digits
		many = append(many, fmt.Sprintf("DISPATCHER_KAFKA_LANES_%d_NAME=lane-%d", i, i), fmt.Sprintf("DISPATCHER_KAFKA_LANES_%d_TOPICS=t%d", i, i))
	}
	if c = load(t, configs.Source{Environ: environ(many...)}); len(c.Kafka.Lanes) != 12 || c.Kafka.Lanes[11].Name != "lane-11" || c.Validate() != nil {
		t.Errorf("got %d lanes, fault %v, want 12", len(c.Kafka.Lanes), c.Validate())
	}
	c = load(t, configs.Source{File: file, Environ: environ("DISPATCHER_KAFKA_TOPICS=a", "DISPATCHER_KAFKA_LANES_0_TOPICS=b")})
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "kafka.topics: [a]: must be empty with kafka.lanes") {
		t.Errorf("got %v, want both named", err)
	}
}

func TestLimitsInAFileReplaceTheList(t *testing.T) {
	t.Parallel()
	file := write(t, "limits:\n  - name: mine\n    cap: 20\n    window: 1m\n    lateness: 2ms\n")
	c := load(t, configs.Source{File: file, Set: []string{"limits.0.cap=300"}})
	want := []configs.Limit{{
		Name: "mine", Guard: parameters.Auto,
		Spec: limit.Spec{Terms: limit.Terms{Contract: limit.Contract{
			Cap: 300, Window: time.Minute, Burst: 1, MaxCost: 1, Lateness: 2 * time.Millisecond, Spread: 7 * time.Millisecond, Horizon: 200 * time.Millisecond,
		}}},
	}}
	if diff := cmp.Diff(want, c.Limits); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}

func TestHeadersMergeWhateverTheirCase(t *testing.T) {
	t.Parallel()
	file := write(t, "sender: {http: {headers: {X-One: '1', X.Two: '2'}}}\n")
	c := load(t, configs.Source{File: file, Set: []string{"sender.http.headers.X-ONE=3", "sender.http.headers.x.four=4"}})
	want := map[string]string{"x-one": "3", "x.two": "2", "x.four": "4"}
	if diff := cmp.Diff(want, c.Sender.HTTP.Headers); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

func TestKeysWithoutAValueAreLeftOut(t *testing.T) {
	t.Parallel()
	c := load(t, configs.Source{File: write(t, "kafka:\nredis: {namespace: }\n# nothing else\n")})
	if diff := cmp.Diff(load(t, configs.Source{}), c, cmpopts.IgnoreUnexported(configs.Config{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMistakesOutsideTheFile(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		src  configs.Source
		want string
	}{
		{"no such file", configs.Source{File: "no-such.yaml"}, "read config: stat no-such.yaml"},
		{"a directory", configs.Source{File: "testdata"}, "testdata is no regular file"},
		{"unknown variable", configs.Source{Environ: environ("DISPATCHER_KAFKA_BROKER=a:1")}, "DISPATCHER_KAFKA_BROKER names no setting (did you mean DISPATCHER_KAFKA_BROKERS?)"},
		{"nearly a service's variable", configs.Source{Environ: environ("DISPATCHER_REDIS_PORT_TCP=1")}, "DISPATCHER_REDIS_PORT_TCP names no setting"},
		{"a port that is no service's", configs.Source{Environ: environ("DISPATCHER_ADMIN_PORT=9090")}, "DISPATCHER_ADMIN_PORT names no setting"},
		{"unknown limit key", configs.Source{Environ: environ("DISPATCHER_LIMITS_0_CAPS=1")}, "DISPATCHER_LIMITS_0_CAPS names no setting (did you mean DISPATCHER_LIMITS_0_CAP?)"},
		{"no such limit", configs.Source{Environ: environ("DISPATCHER_LIMITS_3_CAP=1")}, "there is no limit 3"},
		{"index that is none", configs.Source{Environ: environ("DISPATCHER_LIMITS_X_CAP=1")}, `"X" is not the place of an entry`},
		{"bad number", configs.Source{Environ: environ("DISPATCHER_KAFKA_WORKERS=many")}, `DISPATCHER_KAFKA_WORKERS: kafka.workers: "many": must be a whole number`},
		{"unknown path", configs.Source{Set: []string{"kafka.worker=3"}}, `--set kafka.worker: unknown key "kafka.worker" (did you mean kafka.workers?)`},
		{"another name", configs.Source{Set: []string{"limits.0.rate=3"}}, `unknown key "limits.0.rate" (did you mean limits.0.cap?)`},
		{"section", configs.Source{Set: []string{"kafka=3"}}, "kafka: is a section"},
		{"whole list", configs.Source{Set: []string{"limits=3"}}, `unknown key "limits"`},
		{"step into a value", configs.Source{Set: []string{"node.x=3"}}, `unknown key "node.x"`},
		{"no equals sign", configs.Source{Set: []string{"hunter2"}}, "--set: a setting of 7 bytes without a ="},
		{"no unit", configs.Source{Set: []string{"kafka.drain=7"}}, `kafka.drain: "7": must be a duration`},
		{"no boolean", configs.Source{Set: []string{"redis.tls.enabled=maybe"}}, `"maybe": must be true or false`},
		{"bad header", configs.Source{Set: []string{"sender.http.headers.a b=1"}}, "is no name of a header"},
		{"limit out of range", configs.Source{Set: []string{"limits.1.cap=1"}}, "--set limits.1.cap: there is no limit 1; 1 are stated"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, err := configs.Load(row.src)
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v\nwant %s", err, row.want)
			}
		})
	}
}

// Statuses are written as numbers or text, in every source.
func TestResultsOfStatuses(t *testing.T) {
	t.Parallel()
	file := write(t, "sender: {http: {results: {404: rejected, 500-599: unavailable}}}\n")
	c := load(t, configs.Source{
		File: file, Set: []string{"sender.http.results.410=accepted", "sender.http.results.404=unknown"},
		Environ: func() []string {
			return []string{"DISPATCHER_SENDER_HTTP_RESULTS_403=rejected", "DISPATCHER_SENDER_HTTP_RESULTS_300_399=rejected"}
		},
	})
	want := sender.Results{"404": "unknown", "500-599": "unavailable", "410": "accepted", "403": "rejected", "300-399": "rejected"}
	if diff := cmp.Diff(want, c.Sender.HTTP.Results); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

// Tokens come from the file, and one by one from the environment and the command line.
func TestTokens(t *testing.T) {
	t.Parallel()
	file := write(t, "admin:\n  listen: 0.0.0.0:8080\n  auth: {tokens: [{name: anna, role: operator, file: /run/anna}, {name: bob, role: operator, file: /run/bob}]}\n")
	c := load(t, configs.Source{
		File: file, Environ: environ("DISPATCHER_ADMIN_AUTH_TOKENS_1_ROLE=viewer"),
		Set: []string{"admin.auth.tokens.2.name=eve", "admin.auth.tokens.2.role=viewer", "admin.auth.tokens.2.file=/run/eve", "admin.tls.cert_file=/c", "admin.tls.key_file=/k"},
	})
	want := []auth.Token{{Name: "anna", Role: auth.Operator, File: "/run/anna"}, {Name: "bob", Role: auth.Viewer, File: "/run/bob"}, {Name: "eve", Role: auth.Viewer, File: "/run/eve"}}
	if diff := cmp.Diff(want, c.Admin.Auth.Tokens); diff != "" || c.Validate() != nil || c.Admin.TLS.CertFile != "/c" {
		t.Errorf("fault %v, settings (-want +got):\n%s", c.Validate(), diff)
	}
	_, err := configs.Load(configs.Source{File: file, Set: []string{"admin.auth.tokens.4.name=far"}})
	if err == nil || !strings.Contains(err.Error(), "there is no token 4; 2 are stated, counted from 0") {
		t.Errorf("got %v, want that there is no such place", err)
	}
	_, err = configs.Check(configs.Source{File: file}, func(configs.Config) error { return nil })
	if err != nil {
		t.Errorf("got %v, want sound settings", err)
	}
	// Files are read where other values are at fault, too.
	_, err = configs.Check(configs.Source{File: file, Set: []string{"kafka.order=x"}}, func(configs.Config) error { return nil })
	if err == nil || !strings.Contains(err.Error(), `admin.auth.tokens.0.file: "/run/anna": can't be read`) {
		t.Errorf("got %v, want the files named", err)
	}
}
