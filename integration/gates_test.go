package integration

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"dispatcher/internal/containers"
	"dispatcher/internal/provider"
)

const (
	gateJobs   = 10_000
	senders    = 10
	recipients = 500
)

const gateLimits = `
limits:
  - {name: account, cap: 300, window: 1s}
  - {name: sender, key: 'job.headers["from"]', cap: 50, window: 1s}
  - {name: recipient, key: job.json.to, cap: 1, window: 1s}
`

// Three nodes send for an account that may send 300 a second, from ten senders of 50 a
// second, to 500 recipients of one a second. One recipient has 200 jobs.
func TestGatesReal(t *testing.T) {
	w := startServers(t, containers.Kafka)
	t.Run("nothing happens", func(t *testing.T) { w.gates(t, 200, 300, func(*scene) {}) })
	t.Run("a node is killed", func(t *testing.T) {
		w.gates(t, 30, 300, func(s *scene) {
			s.nodes[0].signal(t, syscall.SIGKILL)
			_ = s.nodes[0].wait(t, 10*time.Second)
		})
	})
	t.Run("Redis is flushed", func(t *testing.T) {
		w.gates(t, 30, 300, func(s *scene) {
			if err := s.rdb.FlushAll(t.Context()).Err(); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("Redis fails over", func(t *testing.T) {
		r := containers.RedisSentinel(t, true)
		w.gates(t, 30, 300, func(*scene) { r.Kill(r.Primary) },
			"redis.addrs="+strings.Join(containers.Addrs(r.Sentinels...), ","), "redis.master="+containers.SentinelMaster,
			"redis.sentinel_username="+containers.SentinelUser, "redis.sentinel_password="+containers.SentinelPassword)
	})
	t.Run("each limit is cut", func(t *testing.T) {
		w.gates(t, 30, 270, func(s *scene) {
			s.mustCommand(t, "limit", "set", "account", "--cap", "270")
			s.mustCommand(t, "limit", "set", "sender", "--cap", "40")
			s.mustCommand(t, "limit", "set", "recipient", "--window", "1100ms")
		})
	})
}

// gates plays three nodes over a backlog, of which one recipient has that many jobs. In the
// middle of it something happens, after which the account has a cap.
func (w *servers) gates(t *testing.T, hot int, after float64, meanwhile func(*scene), settings ...string) {
	t.Helper()
	s := w.scene(t, 300, 12, 20*time.Millisecond, settings...)
	s.file = filepath.Join(t.TempDir(), "dispatcher.yaml")
	if err := os.WriteFile(s.file, []byte(gateLimits), 0o600); err != nil {
		t.Fatal(err)
	}
	s.enqueueLines(t, gateLines(hot))
	quiet(t)
	s.start(t, 3)
	most := gateJobs * 9 / 10
	s.judge.count(t, gateJobs/3, time.Minute)
	meanwhile(s)
	s.judge.count(t, most, 2*time.Minute)
	calls := s.scriptCalls(t)
	s.settled(t, 6*time.Minute)
	t.Logf("%.3f script calls a job until 0.9 of the jobs were sent, %.3f in all", calls/float64(most), s.scriptCalls(t)/gateJobs)
	stop(t, s.running()...)
	s.gatesKept(t)
	r := s.judge.report(t, 300)
	if r.Accepted != gateJobs || r.Repeated > maxInFlightOfANode {
		t.Errorf("got %d jobs accepted and %d repeated, want %d and at most the calls of a node", r.Accepted, r.Repeated, gateJobs)
	}
	all := s.judge.arrivals(t)
	share, without, standstill := used(all, gateJobs/3, most, after)
	t.Logf("%.4f of the account's cap used until 0.9 of the jobs were sent, %.4f without the longest standstill of %v; the last one came after %.0f s; %d repeated",
		share, without, standstill.Round(time.Millisecond), (all[len(all)-1].At - all[0].At).Seconds(), r.Repeated)
	figure(t, calls/float64(most) <= 0.3, "got %.3f script calls a job, want at most 0.3", calls/float64(most))
	figure(t, without >= 0.97, "got %.4f of the account's cap used while a tenth of the jobs was left, want at least 0.97 without the standstill", without)
}

// used is the share of the account's cap that was used until so many calls: 300 a second until the
// call at which something happened, and another cap from then on. A limiter that has lost its state must
// stand still for a while, so the share without the longest standstill stands beside it.
func used(all []provider.Arrival, happened, calls int, after float64) (share, without float64, standstill time.Duration) {
	for i := happened; i < calls-1; i++ {
		standstill = max(standstill, all[i+1].At-all[i].At)
	}
	before, then := all[happened].At-all[0].At, all[calls-1].At-all[happened].At
	of := func(then time.Duration) float64 {
		return float64(calls-1) / (300*before.Seconds() + after*then.Seconds())
	}
	return of(then), of(then - standstill), standstill
}

const maxInFlightOfANode = 50

// gateLines are the jobs, in no order; so many go to one recipient. The id names sender and recipient.
func gateLines(hot int) *bytes.Buffer {
	var to []int
	for i := range gateJobs - hot {
		to = append(to, 1+i%(recipients-1))
	}
	to = append(to, make([]int, hot)...)
	dice := rand.New(rand.NewPCG(1, 1))
	dice.Shuffle(len(to), func(i, j int) { to[i], to[j] = to[j], to[i] })
	var lines bytes.Buffer
	for i, recipient := range to {
		sender := dice.IntN(senders)
		fmt.Fprintf(&lines, `{"key":"k%d","id":"s%d-r%d-%d","headers":{"from":"s%d"},"value":{"to":"r%d"}}`+"\n", i, sender, recipient, i, sender, recipient)
	}
	return &lines
}

func (s *scene) scriptCalls(t *testing.T) (calls float64) {
	t.Helper()
	for _, n := range s.running() {
		calls += n.metric(t, "dispatcher_limit_script_calls_total")
	}
	return calls
}

// gatesKept says that no window of any limit held more calls than it may.
func (s *scene) gatesKept(t *testing.T) {
	t.Helper()
	for _, l := range []struct {
		name      string
		cap, part int
	}{{"account", 300, 0}, {"sender", 50, 1}, {"recipient", 1, 2}} {
		s.keptBy(t, l.name, l.cap, l.part)
	}
}

// keptBy says that no second held more calls of one value of a part of the ids.
func (s *scene) keptBy(t *testing.T, name string, limit, part int) {
	t.Helper()
	r := s.judge.reportBy(t, limit, time.Second, part)
	t.Logf("%s: %d in the fullest second, %d may be; %.3f unjudged", name, r.MaxInWindow, limit, r.Unjudged)
	for _, o := range r.Over {
		t.Errorf("%s: %d calls in the second from %v, and %d may be", name, o.Count, o.At, o.Allowed)
	}
}
