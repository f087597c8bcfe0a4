package throttle

import (
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// What one booking of a block costs a real Redis, by its own account.
func BenchmarkScript(b *testing.B) {
	rdb := redis.NewClient(&redis.Options{Addr: realCell(b).Addr})
	b.Cleanup(func() { _ = rdb.Close() })
	for _, a := range Algorithms() {
		b.Run(a.Name, func(b *testing.B) {
			if a.Name == "redis_cell" && os.Getenv(cellModule) == "" {
				b.Skipf("NOT SHOWN: %s names no redis-cell module inside the image", cellModule)
			}
			benchScript(b, rdb, a)
		})
	}
}

// benchScript books as one node does at 3000 a second: 60 units every 20 ms. The
// time of an operation is that pause and means nothing; the server's figure is
// what counts.
func benchScript(b *testing.B, rdb *redis.Client, a Algorithm) {
	b.Helper()
	c := contract(3000)
	s := newScripts(rdb, "bench-"+a.Name, "provider", "n")
	q := ask{seq: 1, identity: IdentityNone, lead: lead, known: seeded(a.Name, c, Rails{})}
	reply, err := s.runBook(b.Context(), q)
	if err != nil {
		b.Fatal(err)
	}
	time.Sleep(duration(reply.quiet - reply.now))
	if err := rdb.ConfigResetStat(b.Context()).Err(); err != nil {
		b.Fatal(err)
	}
	q.want = 60
	served := 0
	for b.Loop() {
		q.seq++
		reply, err := s.runBook(b.Context(), q)
		if err != nil {
			b.Fatal(err)
		}
		if reply.schedule.given > 0 {
			served++
		}
		time.Sleep(block)
	}
	info, err := rdb.Info(b.Context(), "commandstats").Result()
	found := regexp.MustCompile(`cmdstat_evalsha:.*usec_per_call=([\d.]+)`).FindStringSubmatch(info)
	if err != nil || found == nil {
		b.Fatalf("no figure for evalsha: %v", err)
	}
	us, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(us, "server-µs/call")
	b.ReportMetric(float64(served)/float64(q.seq-1), "served/call")
}
