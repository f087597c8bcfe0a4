package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"dispatcher/internal/containers"
)

// A campaign is cancelled, and then Redis loses all that it knows. The node puts the rule back, also where another one is made at
// once, so that a node that starts later calls nothing of the campaign either.
func TestLostRulesReal(t *testing.T) {
	const jobs = 60
	w := startServers(t, containers.Kafka)
	s := w.scene(t, 100, 6, faultLatency)
	first := s.startOne(t)
	s.load(t, jobs, "other")
	s.judge.count(t, jobs, time.Minute)
	s.mustCommand(t, "cancel", "--when", `job.headers["campaign"] == "spring"`, "--for", "24h", "--why", "wrong price")
	if err := s.rdb.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	// Until the node registers again the command says that none works, and keeps the rule.
	said, err := s.command(t, "cancel", "--when", `job.headers["campaign"] == "autumn"`, "--for", "24h", "--why", "no stock")
	if err != nil && !strings.Contains(said, "the change is made") {
		t.Fatal(said)
	}
	var known string
	eventually(t, 20*time.Second, func() bool {
		known = s.mustCommand(t, "rules", "list")
		return strings.Contains(known, "wrong price") && strings.Contains(known, "no stock")
	},
		func() string { return "the rule is not put back: " + known })
	t.Log(strings.TrimSpace(s.mustCommand(t, "rules", "history")))

	s.startOne(t)
	stop(t, first)
	s.campaign(t, jobs)
	s.settled(t, time.Minute)
	if called := callsFrom(s.judge.arrivals(t), "spring-"); len(called) > 0 {
		t.Errorf("got %d calls of the cancelled campaign, want none", len(called))
	}
	if got := s.settle(t, "drop", "--reason", "cancelled"); got.Done != jobs {
		t.Errorf("got %+v, want %d dead letters of cancelled jobs dropped", got, jobs)
	}
	stop(t, s.running()...)
}

// campaign writes jobs of the campaign spring, with ids that begin so.
func (s *scene) campaign(t *testing.T, jobs int) {
	t.Helper()
	all := make([]*kgo.Record, jobs)
	for n := range all {
		all[n] = s.named(fmt.Sprint(n), fmt.Sprint("spring-", n), kgo.RecordHeader{Key: "campaign", Value: []byte("spring")})
	}
	put(t, s.producer(t), all...)
}
