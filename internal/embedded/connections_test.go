package embedded_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"dispatcher/internal/background"
	"dispatcher/internal/embedded"
	"dispatcher/internal/provider"
	"dispatcher/internal/redisclient"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit/parameters"
	"dispatcher/throttle/phase"
)

// A provider that closes each connection with its answer, and takes its time for
// a new one, costs no slots: a connection comes first, and the slot last. The share
// says something only on a machine that is not busy with other things; the law
// itself is held in internal/node, in time of its own.
func TestCallsThatNeedANewConnectionKeepTheirSlots(t *testing.T) {
	const limit = 200
	// What is used with connections that are kept, by the same code on the same
	// machine, is what could be used.
	kept := shareUsed(t, limit, 4*limit, provider.Options{}, 40*time.Millisecond)
	for _, dial := range []time.Duration{40 * time.Millisecond, 450 * time.Millisecond} {
		r := shareUsed(t, limit, 8*limit, provider.Options{OneCall: true}, dial)
		t.Logf("%d calls a second, each on a new connection that takes %v: %.3f of the cap used; on connections that are kept: %.3f; judge held up for %.2f and %.2f of the time",
			limit, dial, r.Utilisation, kept.Utilisation, r.HeldUp, kept.HeldUp)
		if busy := max(r.HeldUp, kept.HeldUp); busy < 0.1 && r.Utilisation < 0.95*kept.Utilisation {
			t.Errorf("a handshake of %v: got %.3f of the cap used, want nearly the %.3f of connections that are kept", dial, r.Utilisation, kept.Utilisation)
		}
	}
}

// shareUsed runs one node on a provider whose handshake takes so long, and reports
// what it did when it had begun.
func shareUsed(t *testing.T, limit, jobs int, o provider.Options, handshake time.Duration) provider.Report {
	t.Helper()
	slow, err := provider.NewSlowTLS(handshake)
	if err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, slow.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	o.Listen = slow.Listen
	o.Behaviour.Latency = 20 * time.Millisecond
	p := begin(t, embedded.Options{Provider: o})
	enqueue(t, p, jobs)
	f, err := embedded.NewFleet(p, 1, logger(t), fmt.Sprintf("limits.0.cap=%d", limit), "limits.0.guard=32ms", "limits.0.lateness=25ms", "sender.http.url=https://"+p.Provider.Addr()+"/send",
		"sender.http.tls.enabled=true", "sender.http.tls.ca_file="+ca)
	if err != nil {
		t.Fatal(err)
	}
	stop := background.Run(t, f.Run)
	await(t, func() bool { return p.Provider.Count() > limit/2 })
	p.Provider.Reset()
	settle(t, p)
	stop()
	r := p.Provider.Report(provider.Contract{Window: time.Second, Caps: []provider.CapFrom{{Cap: limit}}})
	if !r.Kept || p.Dead() != 0 {
		t.Errorf("got %d dead letters and windows over the cap: %+v", p.Dead(), r.Over)
	}
	return r
}

// A limit that is paused has no connection opened, however many jobs wait.
func TestAPausedLimitDialsNothing(t *testing.T) {
	t.Parallel()
	p := begin(t, embedded.Options{})
	enqueue(t, p, 100)
	f, err := embedded.NewFleet(p, 1, logger(t), "limits.0.cap=400", "sender.http.idle_timeout=1s")
	if err != nil {
		t.Fatal(err)
	}
	client := redisclient.New(redisclient.Options{Addrs: []string{p.RedisAddr()}})
	defer func() { _ = client.Close() }()
	operator, err := control.NewControl(client, "default", "provider")
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, f.Run)
	settle(t, p)
	if _, err := operator.Set(t.Context(), control.Change{Values: parameters.Values{"paused": "true"}}); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { return f.Nodes[0].Limit().Phase == phase.Paused })
	before := f.Sum("dispatcher_sender_dials_total")
	write(t, p, "jobs", 100, 200)
	await(t, func() bool { return f.Nodes[0].Consumer().Lanes[0].Ready > 50 })
	time.Sleep(1500 * time.Millisecond) // those that were idle have ended
	if dials := f.Sum("dispatcher_sender_dials_total") - before; dials != 0 {
		t.Errorf("got %v connections opened for a paused limit", dials)
	}
	if _, err := operator.Set(t.Context(), control.Change{Values: parameters.Values{"paused": "false"}}); err != nil {
		t.Fatal(err)
	}
	settle(t, p)
}
