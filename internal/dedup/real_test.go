package dedup

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/internal/containers"
	"dispatcher/lua"
)

// onReal is a real Redis. Its clock can't be set, so the script is given one
// that can: a key.
func onReal(t testing.TB) (redis.UniversalClient, clock, string) {
	t.Helper()
	rdb := patient(t, containers.Redis(t).Addr)
	const from, to = "redis.call('TIME')", "redis.call('HMGET', 'clock', 's', 'us')"
	if strings.Count(asWritten(), from) != 1 {
		t.Fatalf("the script has not exactly one %q", from)
	}
	c := func(now time.Time, _ time.Duration) {
		us := now.UnixMicro()
		if err := rdb.HSet(context.Background(), "clock", "s", us/1_000_000, "us", us%1_000_000).Err(); err != nil {
			t.Fatal(err)
		}
	}
	return rdb, c, strings.Replace(asWritten(), from, to, 1)
}

func TestNobodyIsSentTwiceReal(t *testing.T) {
	rdb, c, text := onReal(t)
	t.Run("parked", func(t *testing.T) { lawNoRepeats(t, rdb, c, text, false, 1000) })
	t.Run("taken over", func(t *testing.T) { lawNoRepeats(t, rdb, c, text, true, 1000) })
}

// The memory of a million jobs, beside that of a string key for each job, and the cost
// of a job among them.
func TestMemoryAndCostReal(t *testing.T) {
	rdb := patient(t, containers.Redis(t).Addr)
	const million = 1_000_000
	flat := memoryOf(t, rdb, func() {
		for i := 0; i < million; i += 5000 {
			pipe := rdb.Pipeline()
			for j := range 5000 {
				pipe.Set(t.Context(), fmt.Sprintf("dispatcher:{default}:sent:%x", digestOf(fmt.Sprint(i+j)).field), "17", 48*time.Hour)
			}
			if _, err := pipe.Exec(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Logf("a string key a job: %.1f MB a million", flat)
	var s *script
	kept := memoryOf(t, rdb, func() { s = fill(t, rdb, million, 24) })
	t.Logf("as it is kept, over a day: %.1f MB a million, in %d generations %s", kept, len(s.generations), s.list)
	if kept > 40 {
		t.Errorf("got %.1f MB a million, want at most 40", kept)
	}
	for _, size := range []int{1, 16, 64} {
		us := costOf(t, rdb, s, size)
		t.Logf("batches of %d: %.1f µs of Redis a job (claim and done), %.3f calls a job", size, us, 2/float64(size))
	}
}

// fill notes jobs as done, in steps of a day.
func fill(t *testing.T, rdb redis.UniversalClient, jobs, steps int) *script {
	t.Helper()
	text := strings.Replace(lua.Dedup(), "redis.call('TIME')", "redis.call('HMGET', 'clock', 's', 'us')", 1)
	s := &script{
		rdb: rdb, text: redis.NewScript(text), prefix: prefix("default"),
		terms: terms{period: 12 * time.Hour, window: 24 * time.Hour, hold: 7 * time.Second},
	}
	now := time.Now()
	for i := 0; i < jobs; i += mostEntries {
		at := now.Add(24 * time.Hour * time.Duration(i*steps/jobs) / time.Duration(steps))
		if err := rdb.HSet(t.Context(), "clock", "s", at.Unix(), "us", 0).Err(); err != nil {
			t.Fatal(err)
		}
		batch := make([]request, 0, mostEntries)
		for j := range mostEntries {
			batch = append(batch, request{verbDone, digestOf(fmt.Sprint(i + j)), "a", 17})
		}
		if _, _, err := s.run(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func memoryOf(t *testing.T, rdb redis.UniversalClient, do func()) (mb float64) {
	t.Helper()
	used := func() float64 {
		n, err := strconv.ParseFloat(number(t, rdb, "memory", `used_memory:(\d+)`), 64)
		if err != nil {
			t.Fatal(err)
		}
		return n / 1e6
	}
	if err := rdb.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	before := used()
	do()
	return used() - before
}

func number(t testing.TB, rdb redis.UniversalClient, section, pattern string) string {
	t.Helper()
	info, err := rdb.Info(t.Context(), section).Result()
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(pattern).FindStringSubmatch(info)
	if found == nil {
		t.Fatalf("INFO %s says nothing of %s", section, pattern)
	}
	return found[1]
}

// costOf is Redis's time for a claim and a done of new jobs, in µs.
func costOf(t *testing.T, rdb redis.UniversalClient, s *script, size int) float64 {
	t.Helper()
	if err := rdb.Do(t.Context(), "config", "resetstat").Err(); err != nil {
		t.Fatal(err)
	}
	jobs := 500 * size
	for i := 0; i < jobs; i += size {
		for _, v := range []verb{verbClaim, verbDone} {
			batch := make([]request, 0, size)
			for j := range size {
				batch = append(batch, request{v, digestOf(fmt.Sprint("new", size, i+j)), "name-of-11x.1a2b", 1})
			}
			if _, _, err := s.run(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
		}
	}
	us, err := strconv.ParseFloat(number(t, rdb, "commandstats", `cmdstat_evalsha:calls=\d+,usec=(\d+)`), 64)
	if err != nil {
		t.Fatal(err)
	}
	return us / float64(jobs)
}

func TestKilledNodesReal(t *testing.T) {
	addr := containers.Redis(t).Addr
	for _, takeOver := range []bool{false, true} {
		t.Run(fmt.Sprint("taken over ", takeOver), func(t *testing.T) { nodesAreKilled(t, addr, takeOver, 3000) })
	}
}

// How long a claim and a done take, in a node that has 64 jobs in flight, and how
// many calls a job that makes.
func BenchmarkDedupReal(b *testing.B) {
	rdb := patient(b, containers.Redis(b).Addr)
	l, err := New(Options{Redis: rdb, Namespace: "bench", CallTimeout: 5 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	var calls atomic.Int64
	run := l.run
	l.run = func(ctx context.Context, batch []request) ([]result, bool, error) {
		calls.Add(1)
		return run(ctx, batch)
	}
	ctx, stop := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = l.Run(ctx) })
	var jobs atomic.Int64
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			e := l.Open(fmt.Sprint("job", jobs.Add(1)))
			if a, err := e.Claim(ctx, time.Time{}); err != nil || a.Standing != Granted {
				b.Error(a, err)
				return
			}
			e.Done(ctx, 1, func(error) {})
		}
	})
	stop()
	running.Wait()
	b.ReportMetric(float64(calls.Load())/float64(jobs.Load()), "calls/job")
}
