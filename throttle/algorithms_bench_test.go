package throttle

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

// What one reservation of a block costs a real Redis, by its own account.
func BenchmarkScript(b *testing.B) { eachAlgorithm(b, benchScript) }

// BenchmarkScriptHot is what one reservation costs a real Redis, by its own account,
// when one follows the other at once.
func BenchmarkScriptHot(b *testing.B) { eachAlgorithm(b, hotScript) }

func eachAlgorithm(b *testing.B, bench func(*testing.B, *redis.Client, limit.Algorithm)) {
	b.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: realCell(b).Addr})
	b.Cleanup(func() { _ = rdb.Close() })
	for _, a := range limit.Algorithms() {
		b.Run(a.Name, func(b *testing.B) {
			needsCell(b, a)
			bench(b, rdb, a)
		})
	}
}

// benchScript reserves as one node does at 3000 a second: 60 units every 20 ms. The
// time of an operation is that pause and means nothing; the server's figure is
// what counts.
func benchScript(b *testing.B, rdb *redis.Client, a limit.Algorithm) {
	b.Helper()
	c := contract(3000)
	s := script.NewScripts(rdb, "bench-"+a.Name, "provider", "n")
	q := script.Ask{Seq: 1, Identity: string(IdentityNone), Nearest: nearest, Known: seededBy(a.Name, c)}
	reply, err := s.Reserve(b.Context(), q)
	if err != nil {
		b.Fatal(err)
	}
	time.Sleep(clock.Duration(reply.NotBefore - reply.Now))
	if err := rdb.ConfigResetStat(b.Context()).Err(); err != nil {
		b.Fatal(err)
	}
	q.Want = 60
	served := 0
	for b.Loop() {
		q.Seq++
		reply, err := s.Reserve(b.Context(), q)
		if err != nil {
			b.Fatal(err)
		}
		if reply.Schedule.Given > 0 {
			served++
		}
		time.Sleep(block)
	}
	b.ReportMetric(serverTime(b, rdb), "server-µs/call")
	b.ReportMetric(float64(served)/float64(q.Seq-1), "served/call")
}

func hotScript(b *testing.B, rdb *redis.Client, a limit.Algorithm) {
	b.Helper()
	s := script.NewScripts(rdb, "hot-"+a.Name, "provider", "n")
	q := script.Ask{Seq: 1, Identity: string(IdentityInfo), Nearest: nearest, Learned: true, Known: seededBy(a.Name, contract(100_000))}
	reply, err := s.Reserve(b.Context(), q)
	if err != nil {
		b.Fatal(err)
	}
	time.Sleep(clock.Duration(reply.NotBefore - reply.Now))
	if err := rdb.ConfigResetStat(b.Context()).Err(); err != nil {
		b.Fatal(err)
	}
	q.Want, q.Epoch, q.Since, q.Read = 1, reply.Epoch, reply.Now, reply.Now
	served := 0
	for b.Loop() {
		q.Seq++
		reply, err := s.Reserve(b.Context(), q)
		if err != nil {
			b.Fatal(err)
		}
		served += countInt(reply.Schedule.Given > 0)
	}
	b.ReportMetric(serverTime(b, rdb), "server-µs/call")
	b.ReportMetric(float64(served)/float64(q.Seq-1), "served/call")
}

// serverTime is what a script call took since the statistics were reset, in µs, by
// Redis's own account.
func serverTime(b *testing.B, rdb *redis.Client) float64 {
	b.Helper()
	info, err := rdb.Info(b.Context(), "commandstats").Result()
	found := regexp.MustCompile(`cmdstat_evalsha:.*usec_per_call=([\d.]+)`).FindStringSubmatch(info)
	if err != nil || found == nil {
		b.Fatalf("no figure for evalsha: %v", err)
	}
	us, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		b.Fatal(err)
	}
	return us
}

// What the algorithms that remember a window cost a real Redis where it is large:
// blocks that fill it, and the first call when all of it has passed. Run it with
// -benchtime=3x: each round is a window of four seconds.
func BenchmarkFullWindow(b *testing.B) {
	rdb := redis.NewClient(&redis.Options{Addr: realCell(b).Addr})
	b.Cleanup(func() { _ = rdb.Close() })
	for _, a := range []limit.Algorithm{algorithm(limit.SlidingWindowLog), algorithm(limit.SlidingWindowList)} {
		for _, size := range []int64{20_000, 2_000} {
			b.Run(fmt.Sprint(a.Name, "/blocks of ", size), func(b *testing.B) { benchFullWindow(b, rdb, a, size) })
		}
	}
}

func benchFullWindow(b *testing.B, rdb *redis.Client, a limit.Algorithm, size int64) {
	b.Helper()
	c := contract(1_000_000)
	c.Window = 4 * time.Second
	s := script.NewScripts(rdb, fmt.Sprint("bench-full-", a.Name, size), "provider", "n")
	q := script.Ask{Seq: 1, Identity: string(IdentityNone), Nearest: nearest, Known: seededBy(a.Name, c)}
	call := func(want int64) (took float64, given int64) {
		q.Seq, q.Want = q.Seq+1, want
		if err := rdb.ConfigResetStat(b.Context()).Err(); err != nil {
			b.Fatal(err)
		}
		reply, err := s.Reserve(b.Context(), q)
		if err != nil {
			b.Fatal(err)
		}
		return serverTime(b, rdb), reply.Schedule.Given
	}
	call(0)
	time.Sleep(limit.Windowed(c) + time.Second)
	var fill, first float64
	var blocks, rounds int
	for b.Loop() {
		for given := int64(1); given > 0; blocks++ {
			var took float64
			took, given = call(size)
			fill += took
		}
		time.Sleep(limit.Windowed(c))
		took, given := call(1)
		if given != 1 {
			b.Fatalf("got %d units of an empty window, want 1", given)
		}
		first, rounds = first+took, rounds+1
		time.Sleep(limit.Windowed(c))
	}
	b.ReportMetric(fill/float64(blocks), "server-µs/block")
	b.ReportMetric(first/float64(rounds), "server-µs/first")
}
