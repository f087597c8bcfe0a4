package fleet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"dispatcher/internal/fleet"
)

// place is a Redis in which nodes register.
type place struct {
	server *miniredis.Miniredis
	now    time.Time
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{server: miniredis.RunT(t), now: time.Unix(1_700_000_000, 0)}
	p.server.SetTime(p.now)
	return p
}

func (p *place) pass(d time.Duration) {
	p.now = p.now.Add(d)
	p.server.SetTime(p.now)
	p.server.FastForward(d)
}

// join runs a node until leave is called, and waits until it has registered or
// was refused.
func (p *place) join(t *testing.T, node, namespace, limit string) (leave func() error, log *safeLog) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: p.server.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	log = &safeLog{}
	m := fleet.New(fleet.Options{
		Redis: rdb, Namespace: namespace, Groups: []string{"h", "g"}, Node: node, Limit: limit, Scope: "cluster",
		Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	leave = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { _ = leave() })
	key := "dispatcher:groups:g"
	for deadline := time.Now().Add(30 * time.Second); p.server.HGet(key, namespace) == "" || !p.has(namespace, node); {
		select {
		case err := <-ended:
			ended <- err
			return leave, log
		case <-time.After(time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatal("the node has not registered")
		}
	}
	return leave, log
}

func (p *place) has(namespace, node string) bool {
	fields, err := p.server.HKeys("dispatcher:{" + namespace + "}:group:g")
	if err != nil {
		return false
	}
	for _, f := range fields {
		if strings.HasPrefix(f, node+"-") {
			return true
		}
	}
	return false
}

type safeLog struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *safeLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *safeLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// await waits until the log holds a text.
func (l *safeLog) await(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(l.String(), text); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("got %q, want %q in it", l, text)
		}
	}
}

// A node with another limit is refused with both names while a node of the group is
// there, and declares its own when none is.
func TestANodeWithAnotherLimitIsRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	leaveA, _ := p.join(t, "a", "ns", "sms")
	leaveB, _ := p.join(t, "b", "ns", "sms")
	refused := func() error {
		leave, _ := p.join(t, "c", "ns", "smsx")
		return leave()
	}
	var other *fleet.OtherLimitError
	if err := refused(); !errors.As(err, &other) {
		t.Fatalf("got %v, want the node to be refused", err)
	}
	want := &fleet.OtherLimitError{Group: "h", Mine: `"smsx" (scope cluster)`, Theirs: `"sms" (scope cluster)`, Nodes: []string{"a", "b"}}
	if diff := cmp.Diff(want, other); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := leaveA(); err != nil {
		t.Error(err)
	}
	if err := refused(); !errors.As(err, &other) {
		t.Errorf("got %v while one node is there, want the node to be refused", err)
	}
	if err := leaveB(); err != nil {
		t.Error(err)
	}
	if err := refused(); err != nil {
		t.Errorf("got %v when no node is there, want another limit to be declared", err)
	}
}

// A node that was killed counts for ten seconds.
func TestADeadNodeHoldsTheLimitForTenSeconds(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.server.HSet("dispatcher:{ns}:group:g", "=", `"sms" (scope cluster)`, "dead-0123456789abcdef", "1700000000000000")
	p.pass(9 * time.Second)
	leave, _ := p.join(t, "c", "ns", "smsx")
	if err := leave(); err == nil {
		t.Error("got no error after nine seconds, want the node to be refused")
	}
	p.pass(2 * time.Second)
	leave, _ = p.join(t, "c", "ns", "smsx")
	if err := leave(); err != nil {
		t.Errorf("got %v after eleven seconds, want another limit to be declared", err)
	}
}

// Fleets of other topics have groups of their own, and limits of their own.
func TestAnotherGroupMayHaveAnotherLimit(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.server.HSet("dispatcher:{ns}:group:mail", "=", `"mail" (scope cluster)`, "a-0123456789abcdef", "1700000000000000")
	leave, _ := p.join(t, "b", "ns", "sms")
	if err := leave(); err != nil {
		t.Errorf("got %v, want the node to work", err)
	}
	if got := p.server.HGet("dispatcher:{ns}:group:mail", "="); got == "" {
		t.Error("the other group's limit is gone")
	}
}

// A Redis that does not answer, or gives no rights, is logged once.
func TestANodeThatCanNotRegisterSaysSoOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	leave, log := p.join(t, "a", "ns", "sms")
	p.server.SetError("NOPERM no rights")
	log.await(t, "could not register")
	time.Sleep(time.Second)
	if err := leave(); err != nil {
		t.Errorf("got %v, want the node to go on", err)
	}
	if n := strings.Count(log.String(), "could not register"); n != 1 || !strings.Contains(log.String(), "NOPERM") {
		t.Errorf("got %d lines, want one with the cause: %s", n, log)
	}
}

// The node warns of another namespace of its group once.
func TestAnotherNamespaceIsWarnedOf(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	_, first := p.join(t, "a", "ns", "sms")
	leave, second := p.join(t, "b", "other", "sms")
	second.await(t, "other_namespace=ns")
	if err := leave(); err != nil {
		t.Errorf("got %v, want a warning and no error", err)
	}
	if first.String() != "" {
		t.Errorf("got %q of the first node before it looked again, want nothing", first)
	}
}

// A node warns of another one with its name. A node that was killed and started again is
// not another one.
func TestTwoNodesOfOneNameAreWarnedOf(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.server.HSet("dispatcher:{ns}:group:g", "a-0123456789abcdef", fmt.Sprint(p.now.UnixMicro()))
	_, alone := p.join(t, "a", "ns", "provider")
	p.pass(11 * time.Second)
	_, log := p.join(t, "b", "ns", "provider")
	p.join(t, "b", "ns", "provider")
	const message = "another node of this group has the same name"
	deadline := time.Now().Add(30 * time.Second)
	for !strings.Contains(log.String(), message) && time.Now().Before(deadline) {
		p.pass(2 * time.Second)
		time.Sleep(time.Second)
	}
	if got := log.String(); strings.Count(got, message) != 1 || !strings.Contains(got, "name=b others=1") {
		t.Errorf("got %q, want to hear once of the other b", got)
	}
	if strings.Contains(alone.String(), message) {
		t.Errorf("a node is warned of itself: %q", alone.String())
	}
}
