package throttle

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"dispatcher/internal/fault"
	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/limit"
)

// clThrottleScript answers as redis-cell does, on a Redis without the module.
//
//go:embed testdata/cl_throttle.lua
var clThrottleScript string

// cellReply is what CL.THROTTLE answers, in its order.
type cellReply struct {
	Limited    bool
	Limit      int64         // max_burst + 1
	Remaining  int64         // of the limit
	RetryAfter time.Duration // whole seconds; -1 s unless limited, and where it would never do
	ResetAfter time.Duration // whole seconds, until all of the limit remains
}

// maxTolerance is what CLThrottle can count exactly, in ns: about 104 days.
const maxTolerance = 1 << 53

// clThrottle is CL.THROTTLE of redis-cell for a Redis that has no such module:
// count units in periodSeconds, and maxBurst at once beside the first. A
// quantity of 0 only looks; one below 0 gives back. The key holds what the
// module would hold.
//
// One thing differs: a limited caller gets a wait of 1 s where the
// module may say 0.
func clThrottle(ctx context.Context, rdb redis.Scripter, key string, maxBurst, count, periodSeconds, quantity int64) (cellReply, error) {
	if err := clThrottleFaults(maxBurst, count, periodSeconds, quantity); err != nil {
		return cellReply{}, err
	}
	n, err := redis.NewScript(clThrottleScript).Run(ctx, rdb, []string{key}, maxBurst, count, periodSeconds, quantity).Int64Slice()
	if err != nil {
		return cellReply{}, fmt.Errorf("throttle %q: %w", key, err)
	}
	return cellReplyOf(n)
}

func cellReplyOf(n []int64) (cellReply, error) {
	if len(n) != 5 {
		return cellReply{}, fmt.Errorf("throttle: %w: %d values", script.ErrReply, len(n))
	}
	return cellReply{
		Limited: n[0] == 1, Limit: n[1], Remaining: n[2],
		RetryAfter: time.Duration(n[3]) * time.Second, ResetAfter: time.Duration(n[4]) * time.Second,
	}, nil
}

func clThrottleFaults(maxBurst, count, periodSeconds, quantity int64) error {
	const most = int64(maxTolerance / time.Second)
	var faults []error
	refuse := func(bad bool, field string, value int64, why string) {
		if bad {
			faults = append(faults, &fault.Error{Field: field, Value: value, Remedy: why})
		}
	}
	refuse(maxBurst < 0, "max_burst", maxBurst, "must be at least 0")
	refuse(count < 1, "count", count, "must be at least 1")
	refuse(periodSeconds < 1 || periodSeconds > most, "period", periodSeconds, fmt.Sprintf("must be from 1 to %d seconds", most))
	if err := errors.Join(faults...); err != nil {
		return err
	}
	spacing := float64(periodSeconds) * 1e9 / float64(count)
	refuse(spacing*(float64(maxBurst)+1) > maxTolerance, "max_burst", maxBurst, "is too large to be counted exactly with this period")
	refuse(spacing*max(float64(quantity), -float64(quantity)) > maxTolerance, "quantity", quantity, "is too large to be counted exactly")
	return errors.Join(faults...)
}

// numbers are the five that CL.THROTTLE answers.
type numbers [5]int64

func (r cellReply) numbers() numbers {
	n := numbers{0, r.Limit, r.Remaining, int64(r.RetryAfter / time.Second), int64(r.ResetAfter / time.Second)}
	if r.Limited {
		n[0] = 1
	}
	return n
}

// What the module was seen to answer, on a fresh key each and back to back.
func TestCLThrottleAnswersAsTheModule(t *testing.T) {
	t.Parallel()
	type call struct {
		burst, count, period, quantity int64
		want                           numbers
	}
	for name, calls := range map[string][]call{
		"two and a look": {
			{15, 30, 60, 1, numbers{0, 16, 15, -1, 2}}, {15, 30, 60, 1, numbers{0, 16, 14, -1, 4}}, {15, 30, 60, 0, numbers{0, 16, 14, -1, 4}},
		},
		"no burst": {
			{0, 1, 2, 1, numbers{0, 1, 0, -1, 2}},
			{0, 1, 2, 1, numbers{1, 1, 0, 2, 2}},
			{0, 1, 2, 0, numbers{0, 1, 0, -1, 2}},
			{0, 1, 2, 2, numbers{1, 1, 0, -1, 2}},
		},
		"more than ever": {{4, 1, 1, 6, numbers{1, 5, 5, -1, 0}}},
		"several":        {{4, 1, 1, 5, numbers{0, 5, 0, -1, 5}}, {4, 1, 1, 1, numbers{1, 5, 0, 1, 5}}, {4, 1, 1, 0, numbers{0, 5, 0, -1, 5}}},
		"a look first":   {{4, 1, 1, 0, numbers{0, 5, 5, -1, 0}}},
		"given back":     {{4, 1, 10, 5, numbers{0, 5, 0, -1, 50}}, {4, 1, 10, -2, numbers{0, 5, 2, -1, 30}}},
		"a fifth":        {{0, 5, 1, 1, numbers{0, 1, 0, -1, 1}}, {0, 5, 1, 1, numbers{1, 1, 0, 1, 1}}},
		"under a ms":     {{0, 3000, 1, 1, numbers{0, 1, 0, -1, 0}}, {0, 3000, 1, 1, numbers{1, 1, 0, 1, 0}}}, // the module says: after 0 s
		"another rate": {
			{9, 10, 1, 10, numbers{0, 10, 0, -1, 1}},
			{9, 10, 1, 1, numbers{1, 10, 0, 1, 1}},
			{0, 1, 1, 1, numbers{1, 1, 0, 1, 1}},
			{9, 1, 1, 0, numbers{0, 10, 9, -1, 1}},
			{99, 100, 1, 0, numbers{0, 100, 0, -1, 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := embeddedRedis(t)
			for i, c := range calls {
				r, err := clThrottle(t.Context(), rdb, "k", c.burst, c.count, c.period, c.quantity)
				if got := r.numbers(); err != nil || got != c.want {
					t.Errorf("call %d: got %v, %v, want %v", i+1, got, err, c.want)
				}
			}
		})
	}
}

// The unit test of the module's own arithmetic: 1 a second, and 4 beside it.
func TestCLThrottleAnswersAsTheModuleOverTime(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	rdb := patient(t, m.Addr())
	begin, last := time.Unix(1_700_000_000, 0), time.Duration(0)
	for i, c := range []struct {
		at       time.Duration
		quantity int64
		want     numbers
	}{
		{0, 6, numbers{1, 5, 5, -1, 0}},
		{0, 1, numbers{0, 5, 4, -1, 1}},
		{0, 1, numbers{0, 5, 3, -1, 2}},
		{0, 1, numbers{0, 5, 2, -1, 3}},
		{0, 1, numbers{0, 5, 1, -1, 4}},
		{0, 1, numbers{0, 5, 0, -1, 5}},
		{0, 1, numbers{1, 5, 0, 1, 5}},
		{3000 * time.Millisecond, 1, numbers{0, 5, 2, -1, 3}},
		{3100 * time.Millisecond, 1, numbers{0, 5, 1, -1, 4}},
		{4000 * time.Millisecond, 1, numbers{0, 5, 1, -1, 4}},
		{8000 * time.Millisecond, 1, numbers{0, 5, 4, -1, 1}},
		{9500 * time.Millisecond, 1, numbers{0, 5, 4, -1, 1}},
		{9500 * time.Millisecond, 0, numbers{0, 5, 4, -1, 1}},
		{9500 * time.Millisecond, 2, numbers{0, 5, 2, -1, 3}},
		{9500 * time.Millisecond, 5, numbers{1, 5, 2, 3, 3}},
	} {
		m.SetTime(begin.Add(c.at))
		m.FastForward(c.at - last)
		last = c.at
		r, err := clThrottle(t.Context(), rdb, "k", 4, 1, 1, c.quantity)
		if got := r.numbers(); err != nil || got != c.want {
			t.Errorf("call %d at %v: got %v, %v, want %v", i+1, c.at, got, err, c.want)
		}
	}
}

func TestCLThrottleRefuses(t *testing.T) {
	t.Parallel()
	for field, args := range map[string][4]int64{
		"max_burst": {-1, 1, 1, 1}, "count": {0, 0, 1, 1}, "period": {0, 1, 0, 1}, "quantity": {0, 1, 60, 1 << 40},
	} {
		_, err := clThrottle(t.Context(), nil, "k", args[0], args[1], args[2], args[3])
		var fault *fault.Error
		if !errors.As(err, &fault) || fault.Field != field {
			t.Errorf("got %v, want a refusal of %s", err, field)
		}
	}
}

func TestRedisCellSaysThatTheModuleIsMissing(t *testing.T) {
	t.Parallel()
	c := contract(40)
	s := script.NewScripts(embeddedRedis(t), "cell", "provider", "n")
	_, err := s.Reserve(t.Context(), script.Ask{Want: 1, Seq: 1, Identity: string(IdentityNone), Known: seededBy(limit.RedisCell, c)})
	if err == nil || !strings.Contains(err.Error(), "MODULE this Redis has no redis-cell (CL.THROTTLE)") || !script.IsRefusal(err) {
		t.Errorf("got %v, want a lasting refusal that names the module", err)
	}
}

// pair are the two answers to the same call, made in one transaction.
type pair struct{ module, ours numbers }

// apart says whether the two differ, and whether by no more than a boundary of
// the clock between the two calls explains.
func (p pair) apart(quantity int64) (differs, ok bool) {
	if p.module[0] == 1 && p.module[3] == 0 {
		p.module[3] = 1 // the one thing that is meant to differ
	}
	if p.module[0] != p.ours[0] { // what the one has given, but for the last unit of it, remains at the other
		if p.module[0] == 0 {
			p.module[2] += quantity
		} else {
			p.ours[2] += quantity
		}
		return true, abs(p.module[2]-p.ours[2]) <= 1
	}
	ok = p.module[1] == p.ours[1]
	for i := 2; i < 5; i++ {
		ok = ok && abs(p.module[i]-p.ours[i]) <= 1
	}
	return p.module != p.ours, ok
}

func abs(n int64) int64 { return max(n, -n) }

func both(t *testing.T, rdb redis.UniversalClient, key string, args ...any) (p pair) {
	t.Helper()
	tx := rdb.TxPipeline()
	module := tx.Do(t.Context(), append([]any{"CL.THROTTLE", key + ":module"}, args...)...)
	ours := redis.NewScript(clThrottleScript).EvalSha(t.Context(), tx, []string{key + ":ours"}, args...)
	if _, err := tx.Exec(t.Context()); err != nil {
		t.Fatal(args, err)
	}
	a, errA := module.Int64Slice()
	b, errB := ours.Int64Slice()
	if errA != nil || errB != nil || len(a) != 5 || len(b) != 5 {
		t.Fatal(args, a, b, errA, errB)
	}
	return pair{numbers(a), numbers(b)}
}

// The script agrees with the module itself in random calls.
func TestCLThrottleAgreesWithTheModuleReal(t *testing.T) {
	t.Parallel()
	if os.Getenv(cellModule) == "" {
		t.Skipf("NOT SHOWN: %s names no redis-cell module inside the image", cellModule)
	}
	rdb := patient(t, realCell(t).Addr)
	if err := redis.NewScript(clThrottleScript).Load(t.Context(), rdb).Err(); err != nil {
		t.Fatal(err)
	}
	const calls = 10_000
	roll, by1, decided, limited := rand.New(rand.NewPCG(6, 1)), 0, 0, 0
	for i := range calls {
		key := fmt.Sprint("k", roll.IntN(600))
		quantity := roll.Int64N(6)
		p := both(t, rdb, key, roll.IntN(20), 1+roll.IntN(1_000), 1+roll.IntN(3), quantity)
		differs, ok := p.apart(quantity)
		if !ok {
			t.Fatalf("call %d: the module answers %v, and the script %v", i, p.module, p.ours)
		}
		if differs {
			by1++
		}
		if p.module[0] == 1 {
			limited++
		}
		if p.module[0] != p.ours[0] { // only one of them has given: they go on from the same again
			decided++
			if err := rdb.Copy(t.Context(), key+":module", key+":ours", 0, true).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if roll.IntN(10) == 0 {
			time.Sleep(time.Duration(roll.IntN(10)) * time.Millisecond)
		}
	}
	t.Logf("%d calls, %d of them limited: %d differ by 1, and %d of these in whether they are limited", calls, limited, by1, decided)
	if limited < calls/20 || limited > calls*19/20 || by1 > calls/20 {
		t.Errorf("%d of %d calls were limited, and %d differ; that proves little", limited, calls, by1)
	}
}
