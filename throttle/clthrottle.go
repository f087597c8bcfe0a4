package throttle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/lua"
)

// Reply is what CL.THROTTLE answers, in its order.
type Reply struct {
	Limited    bool
	Limit      int64         // max_burst + 1
	Remaining  int64         // of the limit
	RetryAfter time.Duration // whole seconds; -1 s unless limited, and where it would never do
	ResetAfter time.Duration // whole seconds, until all of the limit remains
}

// maxTolerance is what CLThrottle can count exactly, in ns: about 104 days.
const maxTolerance = 1 << 53

// CLThrottle is CL.THROTTLE of redis-cell for a Redis that has no such module:
// count units in periodSeconds, and maxBurst at once beside the first. A
// quantity of 0 only looks; one below 0 gives back. The key holds what the
// module would hold.
//
// One thing differs: who is limited is told to come again after 1 s where the
// module may say 0.
func CLThrottle(ctx context.Context, rdb redis.Scripter, key string, maxBurst, count, periodSeconds, quantity int64) (Reply, error) {
	if err := clThrottleFaults(maxBurst, count, periodSeconds, quantity); err != nil {
		return Reply{}, err
	}
	n, err := redis.NewScript(lua.CLThrottle()).Run(ctx, rdb, []string{key}, maxBurst, count, periodSeconds, quantity).Int64Slice()
	if err != nil {
		return Reply{}, fmt.Errorf("throttle %q: %w", key, err)
	}
	return replyOf(n)
}

func replyOf(n []int64) (Reply, error) {
	if len(n) != 5 {
		return Reply{}, fmt.Errorf("throttle: %w: %d values", errReply, len(n))
	}
	return Reply{
		Limited: n[0] == 1, Limit: n[1], Remaining: n[2],
		RetryAfter: time.Duration(n[3]) * time.Second, ResetAfter: time.Duration(n[4]) * time.Second,
	}, nil
}

func clThrottleFaults(maxBurst, count, periodSeconds, quantity int64) error {
	const most = int64(maxTolerance / time.Second)
	var faults []error
	refuse := func(bad bool, field string, value int64, why string) {
		if bad {
			faults = append(faults, &FieldError{Field: field, Value: value, Why: why})
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
