package throttle

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

// BenchmarkManyValues is what a reservation of a block costs a real Redis, by its own account,
// where each job also counts on its sender and its recipient: with few live values of the
// recipient's limit, and with a million. It says what a value takes of Redis's memory.
func BenchmarkManyValues(b *testing.B) {
	rdb := redis.NewClient(&redis.Options{Addr: realCell(b).Addr, ReadTimeout: time.Minute})
	b.Cleanup(func() { _ = rdb.Close() })
	for _, values := range []int{0, 1_000_000} {
		b.Run(fmt.Sprint(values), func(b *testing.B) { benchManyValues(b, rdb, values) })
	}
}

func benchManyValues(b *testing.B, rdb *redis.Client, values int) {
	b.Helper()
	flush(b, rdb)
	const jobs, slots, senders = 36, 12, 10 // a block at 300 a second
	q := script.Ask{
		Seq: 1, Identity: string(IdentityInfo), Nearest: nearest, Refuses: true, Learned: true, Known: seeded(contract(100_000)),
		Gates: script.Gates{Names: gateNames, Known: []limit.Settings{gateOf(100_000, time.Second, 1), gateOf(1, time.Second, 1)}},
	}
	s := script.NewScripts(rdb, "many", "provider", "n")
	reply, err := s.Reserve(b.Context(), q)
	if err != nil {
		b.Fatal(err)
	}
	before := memoryOf(b, rdb)
	fill(b, rdb, s, reply.Epoch, values)
	grown := memoryOf(b, rdb) - before
	q.Epoch, q.Since, q.Read = reply.Epoch, reply.Now, reply.Now
	for range 2 { // the limit begins, and then the gates
		time.Sleep(2 * time.Second)
		if _, err := s.Reserve(b.Context(), q); err != nil {
			b.Fatal(err)
		}
	}
	if err := rdb.ConfigResetStat(b.Context()).Err(); err != nil {
		b.Fatal(err)
	}
	q.Want = slots
	for i := range senders {
		q.Gates.States = append(q.Gates.States, script.State{Hash: HashOf(strconv.Itoa(i))})
	}
	granted, next := 0, 0
	for b.Loop() {
		q.Seq++
		q.Costs, q.Gates.States, q.Gates.Jobs = nil, q.Gates.States[:senders], nil
		for i := range jobs {
			recipient := fmt.Sprint("new", next)
			if i%3 == 0 && values > 0 { // one that a gate refuses
				recipient = strconv.Itoa(next % values)
			}
			next++
			q.Costs = append(q.Costs, 1)
			q.Gates.Jobs = append(q.Gates.Jobs, []script.Pass{{State: i % senders, Units: 1}, {State: len(q.Gates.States), Units: 1}})
			q.Gates.States = append(q.Gates.States, script.State{Gate: 1, Hash: HashOf(recipient)})
		}
		reply, err := s.Reserve(b.Context(), q)
		if err != nil {
			b.Fatal(err)
		}
		granted += len(reply.Choice.Granted)
	}
	if values > 0 {
		b.ReportMetric(grown/float64(values), "bytes/value")
	}
	b.ReportMetric(float64(granted)/float64(q.Seq-1), "granted/call")
	for _, p := range []string{"p50", "p99"} {
		b.ReportMetric(percentile(b, rdb, p), "server-µs-"+p)
	}
}

// fill has so many values of the recipient's limit live, each so that no job passes.
func fill(b *testing.B, rdb *redis.Client, s script.Scripts, epoch int64, values int) {
	b.Helper()
	for begin := 0; begin < values; {
		pipe := rdb.Pipeline()
		for ; begin < values && pipe.Len() < 10_000; begin++ {
			pipe.Set(b.Context(), s.Keys.Gate(gateNames[1], epoch, HashOf(strconv.Itoa(begin))), fmt.Sprint(time.Now().Add(10*time.Minute).UnixMicro(), " 1 1"), 20*time.Minute)
		}
		if _, err := pipe.Exec(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// memoryOf is what Redis holds, in bytes.
func memoryOf(b *testing.B, rdb *redis.Client) float64 {
	b.Helper()
	return figureOf(b, rdb, "memory", `used_memory:(\d+)`)
}

// percentile is that of the time of a script call, in µs, by Redis's own account.
func percentile(b *testing.B, rdb *redis.Client, p string) float64 {
	b.Helper()
	return figureOf(b, rdb, "latencystats", `latency_percentiles_usec_evalsha:.*`+p+`=([\d.]+)`)
}

// figureOf finds a figure in a section of INFO.
func figureOf(b *testing.B, rdb *redis.Client, section, pattern string) float64 {
	b.Helper()
	info, err := rdb.Info(b.Context(), section).Result()
	found := regexp.MustCompile(pattern).FindStringSubmatch(info)
	if err != nil || found == nil {
		b.Fatalf("no figure %s: %v", pattern, err)
	}
	v, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		b.Fatal(err)
	}
	return v
}
