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
	"github.com/prometheus/client_golang/prometheus"
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
func (p *place) join(t *testing.T, node, namespace, limit string, beside ...string) (leave func() error, log *safeLog) {
	t.Helper()
	leave, log, _ = p.joinMeasured(t, node, namespace, limit, beside...)
	return leave, log
}

// joinMeasured is join, with the metrics of the node.
func (p *place) joinMeasured(t *testing.T, node, namespace, limit string, beside ...string) (leave func() error, log *safeLog, metrics *prometheus.Registry) {
	t.Helper()
	m := p.start(t, node, namespace, limit, beside...)
	return m.leave, m.log, m.metrics
}

// member is a node that has registered or was refused.
type member struct {
	leave   func() error // returns what Run returned
	ended   chan struct{}
	log     *safeLog
	metrics *prometheus.Registry
}

func (p *place) start(t *testing.T, node, namespace, limit string, beside ...string) member {
	t.Helper()
	metrics, log := prometheus.NewRegistry(), &safeLog{}
	rdb := redis.NewClient(&redis.Options{Addr: p.server.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	m := fleet.New(fleet.Options{
		Redis: rdb, Namespace: namespace, Groups: []string{"h", "g"}, Node: node, Limit: limit, Scope: "cluster",
		Limits: append([]string{limit}, beside...), Registerer: metrics,
		Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err = m.Run(ctx)
	}()
	leave := func() error {
		cancel()
		<-ended
		return err
	}
	t.Cleanup(func() { _ = leave() })
	started := member{leave, ended, log, metrics}
	key := "dispatcher:groups:g"
	for deadline := time.Now().Add(30 * time.Second); p.server.HGet(key, namespace) == "" || !p.has(namespace, node); {
		select {
		case <-ended:
			return started
		case <-time.After(time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatal("the node has not registered")
		}
	}
	return started
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

// A node with another limit that is back first, after Redis lost the declaration, is refused in the end, and the nodes
// that registered before it go on.
func TestTheOlderNodesKeepTheirLimit(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*place){
		"data lost":     func(p *place) { p.server.FlushAll() },
		"a long outage": func(p *place) { p.pass(11 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			a, b := p.start(t, "a", "ns", "sms"), p.start(t, "b", "ns", "sms")
			p.pass(time.Second)
			lose(p)
			x := p.start(t, "x", "ns", "smsx")
			select {
			case <-x.ended:
			case <-a.ended:
			case <-b.ended:
			case <-time.After(30 * time.Second):
			}
			var other *fleet.OtherLimitError
			if err := x.leave(); !errors.As(err, &other) || other.Theirs != `"sms" (scope cluster)` {
				t.Errorf("got %v of the node with another limit, want it to be refused", err)
			}
			if err := errors.Join(a.leave(), b.leave()); err != nil {
				t.Errorf("got %v of the nodes that were there before, want them to go on", err)
			}
		})
	}
}

// A node that could not register for long does not end a fleet that was started meanwhile under another limit.
func TestANodeThatComesBackLateIsRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	late := p.start(t, "late", "ns", "sms")
	p.pass(2 * time.Minute)
	since := p.now.Add(-61 * time.Second).UnixMicro()
	p.server.HSet("dispatcher:{ns}:group:g", "=", `"smsx" (scope cluster)`, "=since", fmt.Sprint(since), "x-0123456789abcdef", fmt.Sprint(p.now.UnixMicro()))
	select {
	case <-late.ended:
	case <-time.After(30 * time.Second):
	}
	var other *fleet.OtherLimitError
	if err := late.leave(); !errors.As(err, &other) {
		t.Errorf("got %v, want the node to be refused", err)
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

// Each node warns of another namespace of its group, and once: also the one that was there before.
func TestAnotherNamespaceIsWarnedOf(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	_, first := p.join(t, "a", "ns", "sms")
	leave, second := p.join(t, "b", "other", "sms")
	second.await(t, "other_namespace=ns")
	first.await(t, "other_namespace=other") // it looks again
	if err := leave(); err != nil {
		t.Errorf("got %v, want a warning and no error", err)
	}
	for name, log := range map[string]*safeLog{"first": first, "second": second} {
		if n := strings.Count(log.String(), "other_namespace="); n != 1 {
			t.Errorf("got %d warnings of the %s node, want 1: %s", n, name, log)
		}
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

// limitsDiffer is the gauge dispatcher_fleet_limits_differ.
func limitsDiffer(t *testing.T, metrics *prometheus.Registry) float64 {
	t.Helper()
	all, err := metrics.Gather()
	if err != nil || len(all) != 1 || all[0].GetName() != "dispatcher_fleet_limits_differ" {
		t.Fatalf("got %v, %v, want the gauge alone", all, err)
	}
	return all[0].GetMetric()[0].GetGauge().GetValue()
}

// Nodes whose limits have other names are warned of, once until that changes, and not refused.
func TestNodesWithOtherLimitsAreWarnedOf(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.server.HSet("dispatcher:{ns}:group:g", "old-0123456789abcdef", fmt.Sprint(p.now.UnixMicro())) // of a release that says no names
	_, same := p.join(t, "same", "ns", "account", "sender", "recipient")
	leave, other := p.join(t, "other node", "ns", "account", "quota")
	_, log, metrics := p.joinMeasured(t, "a", "ns", "account", "recipient", "sender")
	const lacking = "limits differ between nodes\" difference=\"node other node does not keep the limit recipient; node other node does not keep the limit sender; " +
		"this node does not keep the limit quota of node other node"
	log.await(t, lacking)
	other.await(t, "limits differ between nodes\" difference=\"nodes a, same do not keep the limit quota; this node does not keep the limit recipient of node a, same; ")
	same.await(t, lacking)
	if got := limitsDiffer(t, metrics); got != 1 {
		t.Errorf("got a gauge of %v, want 1", got)
	}
	p.join(t, "third", "ns", "account", "recipient") // the next change is logged as well
	log.await(t, "nodes other node, third do not keep the limit sender")
	if err := leave(); err != nil {
		t.Errorf("got %v, want a node with other limits to work", err)
	}
	for deadline := time.Now().Add(30 * time.Second); strings.Count(log.String(), "limits differ") < 3; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("got %s, want a warning of each change", log)
		}
	}
	if got := strings.Count(log.String(), lacking); got != 1 || strings.Contains(log.String(), "node old") {
		t.Errorf("got %d warnings of the first difference in %s, want one", got, log)
	}
}

func TestLimitsThatAreTheSameAgain(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	leave, _ := p.join(t, "b", "ns", "account")
	_, log, metrics := p.joinMeasured(t, "a", "ns", "account", "recipient")
	log.await(t, "node b does not keep the limit recipient")
	if err := leave(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); limitsDiffer(t, metrics) != 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the gauge is not 0 again")
		}
	}
	if n := strings.Count(log.String(), "limits differ"); n != 1 {
		t.Errorf("got %d warnings, want one: %s", n, log)
	}
}
