package embedded_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"dispatcher/internal/embedded"
	"dispatcher/sender/provider"
)

// A provider that closes each connection with its answer, and takes its time for
// a new one, costs no slots: a connection comes first, and the slot last.
func TestCallsThatNeedANewConnectionKeepTheirSlots(t *testing.T) {
	const limit = 200
	// What is used with connections that are kept, by the same code on the same
	// machine, is what could be used.
	kept := shareUsed(t, limit, 4*limit, provider.Options{}, 40*time.Millisecond)
	for _, dial := range []time.Duration{40 * time.Millisecond, 450 * time.Millisecond} {
		used := shareUsed(t, limit, 8*limit, provider.Options{OneCall: true}, dial)
		t.Logf("%d calls a second, each on a new connection that takes %v: %.3f of the cap used; on connections that are kept: %.3f", limit, dial, used, kept)
		if used < 0.9*kept {
			t.Errorf("a handshake of %v: got %.3f of the cap used, want nearly the %.3f of connections that are kept", dial, used, kept)
		}
	}
}

// shareUsed runs one node on a provider whose handshake takes so long, and returns
// the share of the cap that it used after the first second.
func shareUsed(t *testing.T, limit, jobs int, o provider.Options, handshake time.Duration) float64 {
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
	f, err := embedded.NewFleet(p, 1, logger(t), fmt.Sprintf("limits.0.cap=%d", limit), "sender.http.url=https://"+p.Provider.Addr()+"/send",
		"sender.http.tls.enabled=true", "sender.http.tls.ca_file="+ca)
	if err != nil {
		t.Fatal(err)
	}
	stop := background(t, f.Run)
	await(t, func() bool { return p.Provider.Count() > limit/2 })
	p.Provider.Reset()
	settle(t, p)
	stop()
	r := p.Provider.Report(provider.Contract{Window: time.Second, Caps: []provider.CapFrom{{Cap: limit}}})
	if !r.Kept || p.Dead() != 0 {
		t.Errorf("got %d dead letters and windows over the cap: %+v", p.Dead(), r.Over)
	}
	return r.Utilisation
}
