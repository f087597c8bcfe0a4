package integration

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"dispatcher/internal/containers"
	"dispatcher/internal/provider"
)

// A provider that keeps no connections and takes its time for a new one gets as
// many calls as one that keeps them: connections are dialled before slots are asked
// for. The run with connections that are kept, in the same minutes, says what the
// machine allows.
func TestDialsReal(t *testing.T) {
	const limit, jobs = 200, 3000
	w := startServers(t, containers.Kafka)
	quiet(t)
	for _, dial := range []time.Duration{40 * time.Millisecond, 450 * time.Millisecond} {
		kept := w.dials(t, dial, limit, jobs)
		each := w.dials(t, dial, limit, jobs, "-one-call")
		t.Logf("%d calls a second, a TLS handshake of %v: %.3f of the cap used where each call needs one, %.3f unjudged; %.3f where connections are kept, %.3f unjudged",
			limit, dial, each.Utilisation, each.Unjudged, kept.Utilisation, kept.Unjudged)
		figure(t, each.Utilisation >= 0.95, "a handshake of %v: got %.3f of the cap used, want at least 0.95", dial, each.Utilisation)
	}
}

// dials runs one node until the jobs are settled, and reports what came after the
// first second.
func (w *servers) dials(t *testing.T, dial time.Duration, limit, jobs int, args ...string) provider.Report {
	t.Helper()
	j := w.startJudge(t, 20*time.Millisecond, append(args, "-handshake", dial.String())...)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, []byte(j.ca), 0o600); err != nil {
		t.Fatal(err)
	}
	s := w.sceneBefore(t, j, limit, 12, "sender.http.url=https://"+j.addr+"/send", "sender.http.tls.enabled=true", "sender.http.tls.ca_file="+ca)
	s.enqueue(t, jobs)
	n := s.startOne(t)
	eventually(t, time.Minute, func() bool { return j.report(t, limit).Sent >= limit }, func() string { return "the first calls" })
	before := j.report(t, limit).Sent
	j.post(t, "/reset", "")
	s.settled(t, 3*time.Minute)
	stop(t, n)
	r := j.report(t, limit)
	once(t, r, r.Distinct)
	if r.Distinct < jobs-before-limit {
		t.Errorf("got %d jobs sent after the first %d, want the rest of %d", r.Distinct, before, jobs)
	}
	return r
}
