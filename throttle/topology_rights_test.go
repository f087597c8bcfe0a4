package throttle_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/internal/containers"
	"dispatcher/internal/redisclient"
	"dispatcher/lua"
	"dispatcher/throttle"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/phase"
)

// alsoNeeds are the rights that an algorithm needs beside [rights].
var alsoNeeds = map[string]string{
	"sliding_window_log":  "+lindex +ltrim +rpush",
	"sliding_window_list": "+lindex +ltrim +rpush",
	"redis_cell":          "+cl.throttle",
}

// operators are the rights of those that change limits.
const operators = "~dispatcher:{topology}:* -@all +eval +evalsha +time +hget +hmget +hgetall +hset +hdel +get +set +del +pexpire +xadd +xrevrange +publish +scan " +
	"+hello +auth +ping +client|setname"

// Each algorithm works with what the documentation says that it needs, and says
// what is wrong with less. Who changes its limit needs no more than that either.
func TestRedisRightsOfEachAlgorithmReal(t *testing.T) {
	t.Parallel()
	s := containers.Redis(t)
	admin := client(t, redisclient.Options{Addrs: []string{s.Addr}})
	node := redisclient.Options{Addrs: []string{s.Addr}, Username: account, Password: password}
	for _, a := range limit.Algorithms() {
		t.Run(a.Name, func(t *testing.T) {
			if a.Name == "redis_cell" && os.Getenv("DISPATCHER_TEST_REDIS_CELL") == "" {
				t.Skip("not shown: DISPATCHER_TEST_REDIS_CELL names no module")
			}
			if less := alsoNeeds[a.Name]; less != "" {
				allow(t, admin, rights)
				refused(t, client(t, node), a.Name)
			}
			allow(t, admin, rights+" "+alsoNeeds[a.Name])
			allowAs(t, admin, "operator", operators)
			l, stop := playing(t, client(t, node), a.Name)
			defer stop()
			take(t, l, 250) // more than a window
			operated(t, client(t, redisclient.Options{Addrs: []string{s.Addr}, Username: "operator", Password: password}))
			take(t, l, 50)
		})
		if err := admin.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// refused expects that a node with an algorithm is.
func refused(t *testing.T, rdb redis.UniversalClient, algorithm string) {
	t.Helper()
	l, stop := playing(t, rdb, algorithm)
	defer stop()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	go func() { _, _ = next(ctx, l) }() // so that it reserves
	for l.State().Phase != phase.Refused && ctx.Err() == nil {
		pause(10 * time.Millisecond)
	}
	if got := l.State(); got.Phase != phase.Refused {
		t.Errorf("got phase %s (%v) without %s, want %s", got.Phase, got.Ready(), alsoNeeds[algorithm], phase.Refused)
	}
}

// playing is a node with an algorithm, until it is stopped.
func playing(t *testing.T, rdb redis.UniversalClient, algorithm string) (l *throttle.Limiter, stop func()) {
	t.Helper()
	l, err := throttle.New(throttle.Options{Redis: rdb, Namespace: "topology", Name: "provider", Limit: limit.Spec{Terms: limit.Terms{Contract: usual(), Algorithm: algorithm}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	return l, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// take has so many slots of a node.
func take(t *testing.T, l *throttle.Limiter, slots int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range slots {
		if _, err := next(ctx, l); err != nil {
			t.Fatalf("%v: %v", err, l.State().Ready())
		}
	}
}

// operated makes a change and takes it back, and looks at what there is.
func operated(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	change(t, rdb)
	c, err := control.NewControl(rdb, "topology", "provider")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Undo(t.Context(), 0, control.Change{By: "test"}); err != nil {
		t.Errorf("undo: %v", err)
	}
	if list, err := c.History(t.Context(), 10); err != nil || len(list) != 2 {
		t.Errorf("history: got %v and %v, want two changes", list, err)
	}
	if _, err := c.Nodes(t.Context()); err != nil {
		t.Errorf("nodes: %v", err)
	}
	if names, err := control.Limits(t.Context(), rdb, "topology"); err != nil || len(names) != 1 {
		t.Errorf("names: got %v and %v, want one", names, err)
	}
	if _, err := c.Used(t.Context(), limit.HashOf("one"), limit.Terms{Gate: true}, "provider"); err != nil {
		t.Errorf("used: %v", err)
	}
	gone, err := control.NewControl(rdb, "topology", "gone")
	if err != nil {
		t.Fatal(err)
	}
	if err := rdb.HSet(t.Context(), gone.Keys.Limit, "settings", limit.Spec{Terms: limit.Terms{Contract: usual()}}.Settings().Pack()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := gone.Delete(t.Context()); err != nil {
		t.Errorf("delete: %v", err)
	}
}

var commandRE = regexp.MustCompile(`redis\.p?call\('([A-Z.]+)'`)

// No script calls a command that the account of the documentation may not: where one
// did, Redis would carry out what the script did before and refuse the rest.
func TestScriptsCallOnlyWhatTheAccountMay(t *testing.T) {
	t.Parallel()
	if text, err := os.ReadFile("../docs/operations.md"); err != nil || !strings.Contains(string(text), strings.ReplaceAll(rights, "topology", "default")) {
		t.Errorf("docs/operations.md does not state the rights %q (%v)", rights, err)
	}
	scripts := map[string]struct{ text, rights string }{
		"lateness": {lua.Lateness(), rights}, "feedback": {lua.Feedback(), rights}, "lease": {lua.Lease(), rights}, "configure": {lua.Configure(), rights},
		"delete": {lua.Delete(), rights}, "register": {lua.Register(), rights}, "rules": {lua.Rules(), rights},
		"redrive": {lua.Redrive(), rights},
	}
	for _, a := range limit.Algorithms() {
		scripts[a.Name] = struct{ text, rights string }{lua.Reserve(a.Name, a.Script, a.Ahead), rights + " " + alsoNeeds[a.Name]}
	}
	for name, s := range scripts {
		may := map[string]bool{}
		for word := range strings.FieldsSeq(s.rights) {
			may[strings.TrimPrefix(word, "+")] = true
		}
		calls := commandRE.FindAllStringSubmatch(s.text, -1)
		if len(calls) == 0 {
			t.Errorf("%s: no command was found", name)
		}
		for _, call := range calls {
			if !may[strings.ToLower(call[1])] {
				t.Errorf("%s calls %s, which its account may not", name, call[1])
			}
		}
	}
}
