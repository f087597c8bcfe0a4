package embedded_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/segmentio/kafka-go"

	"dispatcher/consumer"
	"dispatcher/consumer/dlq"
	"dispatcher/internal/background"
	"dispatcher/internal/dedup"
	"dispatcher/internal/embedded"
	"dispatcher/internal/provider"
	"dispatcher/job"
)

// with are the settings of a fleet with the dedup store.
func with(more ...string) []string {
	return append([]string{
		"dedup.enabled=true", "dedup.margin=200ms", "sender.http.timeout=1s", "limits.0.cap=1000",
		"sender.retry.backoff=10ms", "sender.retry.max_backoff=50ms", "kafka.results=true",
	}, more...)
}

// callCounter counts the calls of each job, and answers as the test says.
type callCounter struct {
	mu     sync.Mutex
	calls  map[string]int
	answer func(key string, call int) provider.Answer
}

func (a *callCounter) provider() provider.Options {
	a.calls = map[string]int{}
	return provider.Options{Answer: func(_ int, key string) provider.Answer {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.calls[key]++
		if a.answer == nil {
			return provider.Answer{}
		}
		return a.answer(key, a.calls[key])
	}}
}

func (a *callCounter) of(key string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls[key]
}

// twice are records of one job, each with another record's key.
func twice(id string) []job.Record {
	all := make([]job.Record, 2)
	for i := range all {
		all[i] = rec(id, job.HeaderIdempotencyKey, id)
		all[i].Key = fmt.Appendf(nil, "%s-%d", id, i)
	}
	return all
}

// A job that is delivered again is not called again: it is settled as it was the
// first time, also while the first call is under way, and each delivery has its
// result.
func TestAJobThatWasSentIsNotCalledAgain(t *testing.T) {
	t.Parallel()
	const jobs = 50
	a := &callCounter{answer: func(key string, _ int) provider.Answer {
		if key == "bad" {
			return provider.Answer{Status: 400}
		}
		return provider.Answer{}
	}}
	p := begin(t, embedded.Options{Partitions: 1, Provider: a.provider()})
	var records []job.Record
	for i := range jobs {
		records = append(records, twice(fmt.Sprint("job-", i))...)
	}
	writeTo(t, p, "jobs", append(records, twice("bad")...)...)
	f, err := embedded.NewFleet(p, 2, logger(t), with()...)
	if err != nil {
		t.Fatal(err)
	}
	stop := background.Run(t, f.Run)
	settle(t, p)
	// The same holds for deliveries that come after the first ones are settled.
	writeTo(t, p, "jobs", append(twice("job-1"), twice("bad")...)...)
	settle(t, p)
	stop()
	for i := range jobs {
		if key := fmt.Sprint("job-", i); a.of(key) != 1 {
			t.Errorf("%s: got %d calls, want 1", key, a.of(key))
		}
	}
	if a.of("bad") != 1 || p.Dead() != 4 {
		t.Errorf("got %d calls and %d dead letters of the job that is refused, want 1 and 4", a.of("bad"), p.Dead())
	}
	results := resultsIn(t, p.Brokers())
	if len(results) != jobs+1 || results["job-1"].Result != job.ResultAccepted || results["job-1"].Attempts != 0 {
		t.Errorf("got %d jobs with a result, the last of job-1 %+v", len(results), results["job-1"])
	}
	if bad := results["bad"]; bad.Result != job.ResultRejected || bad.Status != 400 || bad.Attempts != 0 {
		t.Errorf("got %+v of the job that is refused, want the provider's first answer, without a call", bad)
	}
	if got := f.Sum("dispatcher_dedup_claims_total"); got < 2*jobs+4 {
		t.Errorf("got %v claims, want one a delivery at least", got)
	}
}

// Two topics may count their jobs by the same ids: one that stands in the value is
// another job on another topic. One from the header is the same job on both.
func TestAnIDInTheValueCountsWithinItsTopic(t *testing.T) {
	t.Parallel()
	a := &callCounter{}
	p := begin(t, embedded.Options{MoreTopics: []string{"other"}, Partitions: 1, Provider: a.provider()})
	f, err := embedded.NewFleet(p, 1, logger(t), with("kafka.topics=jobs,other")...)
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, f.Run)
	value, header := rec(`{"id":"in-value"}`), rec("v", job.HeaderIdempotencyKey, "in-header")
	writeTo(t, p, "other", value, header)
	await(t, func() bool { return a.of("in-value") == 1 && a.of("in-header") == 1 })
	writeTo(t, p, "jobs", value, value, header)
	settle(t, p)
	if a.of("in-value") != 2 || a.of("in-header") != 1 {
		t.Errorf("got %d calls by the id in the value and %d by the header, want 2 (one a topic) and 1", a.of("in-value"), a.of("in-header"))
	}
}

// A recreated topic has other jobs in the places of the old ones. Where jobs have no id
// of their own, the dedup store distinguishes them.
func TestARecreatedTopicHasOtherJobs(t *testing.T) {
	t.Parallel()
	const before, after = 20, 8
	a := &callCounter{}
	p := begin(t, embedded.Options{Partitions: 1, Provider: a.provider()})
	work := func(jobs int, text string) {
		t.Helper()
		records := make([]job.Record, jobs)
		for i := range records {
			records[i] = rec(text)
		}
		writeTo(t, p, "jobs", records...)
		f, err := embedded.NewFleet(p, 1, logger(t), with()...)
		if err != nil {
			t.Fatal(err)
		}
		stop := background.Run(t, f.Run)
		settle(t, p)
		stop()
	}
	work(before, "old")
	time.Sleep(2 * time.Millisecond) // timestamps are in milliseconds
	recreate(t, p, "jobs")
	work(after, "new")
	for i := range before {
		want := 1
		if i < after {
			want = 2
		}
		if got := a.of(fmt.Sprint("jobs/0/", i)); got != want {
			t.Errorf("place %d: got %d calls, want %d", i, got, want)
		}
	}
}

// recreate deletes a topic and creates it again, with one partition.
func recreate(t *testing.T, p *embedded.Parts, topic string) {
	t.Helper()
	client := &kafka.Client{Addr: kafka.TCP(p.Brokers()...), Transport: &kafka.Transport{}}
	gone, err := client.DeleteTopics(t.Context(), &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err == nil {
		err = gone.Errors[topic]
	}
	if err != nil {
		t.Fatal(err)
	}
	made, err := client.CreateTopics(t.Context(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: 1, ReplicationFactor: 1}}})
	if err == nil {
		err = made.Errors[topic]
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A job that is replayed from the dead letters is called again, though the dedup store
// knows it.
func TestAReplayedJobIsCalledAgain(t *testing.T) {
	t.Parallel()
	a := &callCounter{answer: func(_ string, call int) provider.Answer {
		if call == 1 {
			return provider.Answer{Status: 400}
		}
		return provider.Answer{}
	}}
	p := begin(t, embedded.Options{Partitions: 1, Provider: a.provider()})
	writeTo(t, p, "jobs", twice("job")...)
	f, err := embedded.NewFleet(p, 1, logger(t), with()...)
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, f.Run)
	settle(t, p)
	replayed := replay(t, p, dlq.Filter{Topics: []string{"jobs"}})
	await(t, func() bool { return a.of("job") == 2 })
	settle(t, p)
	if a.of("job") != 2 || replayed.Done != 2 || p.Dead() != 2 {
		t.Errorf("got %d calls after %d replays, and %d dead letters; want 2, since both letters are one job, 2 and 2", a.of("job"), replayed.Done, p.Dead())
	}
}

// A job whose node died when it was about to call it waits until that call must be
// over. Then the policy decides: called after all, parked, or dead-lettered.
func TestAJobOfANodeThatIsGone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		onUnknown    string
		calls        int
		parked, dead int64
	}{{"retry", 1, 0, 0}, {"park", 0, 1, 0}, {"dlq", 0, 0, 1}} {
		t.Run(c.onUnknown, func(t *testing.T) {
			t.Parallel()
			a := &callCounter{}
			p := begin(t, embedded.Options{Partitions: 1, Provider: a.provider()})
			const hold = 1400 * time.Millisecond
			began := time.Now()
			claimAndGo(t, p, inTopic("jobs", "job-3"))
			enqueue(t, p, 10)
			fleet(t, p, 1, with("sender.on_unknown="+c.onUnknown)...)
			if a.of("job-3") != c.calls || p.Parked() != c.parked || p.Dead() != c.dead || a.of("job-4") != 1 {
				t.Errorf("got %d calls, %d parked, %d dead letters, and %d calls of another job; want %d, %d, %d, 1",
					a.of("job-3"), p.Parked(), p.Dead(), a.of("job-4"), c.calls, c.parked, c.dead)
			}
			if took := time.Since(began); took < hold {
				t.Errorf("all was settled after %v, want the claim's %v to be waited for", took, hold)
			}
		})
	}
}

// While Redis is away what was answered stays open, and is settled all the same
// when the node stops: the call was made.
func TestAStopWithoutRedisSettlesWhatWasAnswered(t *testing.T) {
	t.Parallel()
	a := &callCounter{answer: func(string, int) provider.Answer { return provider.Answer{Delay: 300 * time.Millisecond} }}
	p := begin(t, embedded.Options{Partitions: 1, Provider: a.provider()})
	enqueue(t, p, 1)
	f, err := embedded.NewFleet(p, 1, logger(t), with("kafka.drain=2s")...)
	if err != nil {
		t.Fatal(err)
	}
	stop := background.Run(t, f.Run)
	await(t, func() bool { return a.of("job-0") == 1 })
	p.RedisFails("LOADING")
	await(t, func() bool { return f.Sum("dispatcher_dedup_script_errors_total") > 0 })
	if _, settled := p.Backlog(); settled != 0 {
		t.Error("the job was settled before the dedup store knew that it was sent")
	}
	stop()
	if _, settled := p.Backlog(); settled != 1 || f.Sum("dispatcher_dedup_unwritten_jobs_total") != 1 {
		t.Errorf("got %d settled and %v unwritten, want 1 and 1", settled, f.Sum("dispatcher_dedup_unwritten_jobs_total"))
	}
}

// A call in flight when the node stops is awaited, and so is its record in Redis: the
// dedup store ends after the workers.
func TestTheDedupStoreOutlivesTheCalls(t *testing.T) {
	t.Parallel()
	a := &callCounter{answer: func(string, int) provider.Answer { return provider.Answer{Delay: 500 * time.Millisecond} }}
	p := begin(t, embedded.Options{Partitions: 1, Provider: a.provider()})
	enqueue(t, p, 1)
	f, err := embedded.NewFleet(p, 1, logger(t), with()...)
	if err != nil {
		t.Fatal(err)
	}
	stop := background.Run(t, f.Run)
	await(t, func() bool { return a.of("job-0") == 1 })
	stop() // in the middle of the call
	if _, settled := p.Backlog(); settled != 1 || f.Sum("dispatcher_dedup_unwritten_jobs_total") != 0 {
		t.Errorf("got %d jobs settled and %v that the dedup store does not know of, want 1 and none", settled, f.Sum("dispatcher_dedup_unwritten_jobs_total"))
	}
	if v := standingOf(t, p, inTopic("jobs", "job-0")); v != dedup.Sent {
		t.Errorf("the dedup store says %s of a job whose call was answered, want sent", v)
	}
}

// inTopic names a job to the dedup store whose id stands in its value.
func inTopic(topic, id string) string { return id + "\x00in " + topic }

// standingOf is what the dedup store says of a job.
func standingOf(t *testing.T, p *embedded.Parts, id string) dedup.Standing {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: p.RedisAddr()})
	defer func() { _ = rdb.Close() }()
	l, err := dedup.New(dedup.Options{Redis: rdb, Namespace: "default", CallTimeout: time.Second, Config: dedup.Config{Margin: 200 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	stop := background.Run(t, l.Run)
	defer stop()
	a, err := l.Peek(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return a.Standing
}

// A job whose call got no answer stays claimed: a node that gets the job next calls it
// when the claim is over, and not before.
func TestAJobWithoutAnAnswerWaitsForItsClaim(t *testing.T) {
	t.Parallel()
	const margin, timeout = time.Second, time.Second
	a := &callCounter{answer: func(_ string, call int) provider.Answer {
		if call == 1 {
			return provider.Answer{Fault: provider.Cut}
		}
		return provider.Answer{}
	}}
	p := begin(t, embedded.Options{Partitions: 1, Provider: a.provider()})
	enqueue(t, p, 1)
	settings := with("dedup.margin=1s", "sender.retry.backoff=1m", "sender.retry.max_backoff=1m", "sender.on_unknown=retry")
	f, err := embedded.NewFleet(p, 1, logger(t), settings...)
	if err != nil {
		t.Fatal(err)
	}
	stop := background.Run(t, f.Run)
	await(t, func() bool { return a.of("job-0") == 1 })
	stop() // the job waits for its next call, and is released
	fleet(t, p, 1, settings...)
	arrivals := p.Provider.Arrivals()
	if len(arrivals) != 2 {
		t.Fatalf("got %d calls, want 2", len(arrivals))
	}
	// The first call began within a margin of its claim, which lasts for the
	// timeout and two margins.
	if apart := arrivals[1].At - arrivals[0].At; apart < timeout+margin {
		t.Errorf("got the calls %v apart, want %v at least", apart, timeout+margin)
	}
}

// claimAndGo claims a job, as a node does that dies before its call.
func claimAndGo(t *testing.T, p *embedded.Parts, id string) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: p.RedisAddr()})
	defer func() { _ = rdb.Close() }()
	l, err := dedup.New(dedup.Options{Redis: rdb, Namespace: "default", CallTimeout: time.Second, Config: dedup.Config{Margin: 200 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	stop := background.Run(t, l.Run)
	defer stop()
	if a, err := l.Open(id).Claim(t.Context(), time.Time{}); err != nil || a.Standing != dedup.Granted {
		t.Fatalf("got %+v, %v, want the claim", a, err)
	}
}

func replay(t *testing.T, p *embedded.Parts, filter dlq.Filter) dlq.Tally {
	t.Helper()
	letters, err := dlq.New(dlq.Options{Connection: consumer.Connection{Brokers: p.Brokers()}, Group: "dispatcher"})
	if err != nil {
		t.Fatal(err)
	}
	done, err := letters.Replay(t.Context(), filter, dlq.ReplayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// A job whose call got no answer is parked, with the dedup store and without, and its
// next delivery as well, without a call. From there it can be replayed.
func TestUnknownIsParked(t *testing.T) {
	t.Parallel()
	for _, dedup := range []bool{true, false} {
		t.Run(fmt.Sprint("dedup ", dedup), func(t *testing.T) {
			t.Parallel()
			a := &callCounter{answer: func(key string, call int) provider.Answer {
				if key == "job-7" && call == 1 {
					return provider.Answer{Fault: provider.Cut}
				}
				return provider.Answer{}
			}}
			p := begin(t, embedded.Options{Partitions: 1, Provider: a.provider()})
			enqueue(t, p, 10)
			f, err := embedded.NewFleet(p, 1, logger(t), with("sender.on_unknown=park", fmt.Sprint("dedup.enabled=", dedup))...)
			if err != nil {
				t.Fatal(err)
			}
			background.Run(t, f.Run)
			settle(t, p)
			want := int64(1)
			if dedup {
				write(t, p, "jobs", 7, 8)
				settle(t, p)
				want = 2
			}
			if a.of("job-7") != 1 || p.Parked() != want || p.Dead() != 0 {
				t.Errorf("got %d calls, %d parked and %d dead letters, want 1, %d and none", a.of("job-7"), p.Parked(), p.Dead(), want)
			}
			if r := resultsIn(t, p.Brokers())["job-7"]; r.Result != job.ResultUnknown {
				t.Errorf("got the result %+v, want unknown", r)
			}
			replay(t, p, dlq.Filter{Topics: []string{"jobs"}, Parked: true})
			await(t, func() bool { return a.of("job-7") == 2 })
		})
	}
}
