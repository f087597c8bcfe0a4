package setupcheck

import (
	"context"
	"strings"
	"time"

	"dispatcher/configs"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/shadow"
)

// limiter proves that the scripts limit.
func limiter(ctx context.Context, s *setup) ([]Finding, error) {
	proof, err := shadow.Prove(ctx, shadow.Options{
		Redis: s.Redis, Namespace: s.Config.Redis.Namespace, Algorithm: s.algorithm, Identity: s.Identity,
	})
	if err != nil {
		if isDenied(err) && s.denied || !isReply(err) {
			return nil, err
		}
		return fault("see the table of Redis's answers in docs/operations.md", "on a limit of its own the scripts fail, so nothing is sent: %v", err), nil
	}
	if err := proof.Err(); err != nil {
		return fault("use one writable Redis 7 or Valkey 8, without a proxy that splits or repeats commands", "on a limit of its own, %v", err), nil
	}
	return nil, nil
}

// eviction looks whether Redis may drop keys. The first limit's key has no time to live. Those of the dedup store and those in
// which the limits after the first count have one: to a script a dropped one is a job that was not called, or units that
// nobody has used.
func eviction(ctx context.Context, s *setup) ([]Finding, error) {
	fields, err := s.info(ctx)
	policy := fields["maxmemory_policy"]
	const remedy = "set maxmemory-policy noeviction, or give the fleet a Redis of its own"
	switch {
	case err != nil || policy == "" || policy == "noeviction":
		return nil, err
	case s.Config.Dedup.Enabled:
		return fault(remedy, "maxmemory-policy is %s: Redis may drop what the dedup store remembers, and a job would be called again", policy), nil
	case len(s.Config.Limits) > 1:
		return fault(remedy, "maxmemory-policy is %s: when its memory is full, Redis may drop the counts of the limit %s, and its cap is passed", policy, s.Config.Limits[1].Name), nil
	case strings.HasPrefix(policy, "allkeys-") && s.contract.MaxInFlight > 0:
		return fault(remedy, "maxmemory-policy is %s: when its memory is full, Redis may drop the count of calls in flight, and max_in_flight is passed", policy), nil
	case strings.HasPrefix(policy, "allkeys-"):
		return warn(remedy, "maxmemory-policy is %s: when its memory is full, Redis may drop the limit, and nothing is sent for a while each time", policy), nil
	}
	return nil, nil
}

// persistence matters where a restart of Redis loses more than a limit's timeline, which nodes restore.
func persistence(ctx context.Context, s *setup) ([]Finding, error) {
	fields, err := s.info(ctx)
	if err != nil || fields == nil || number(fields, "aof_enabled") == 1 || number(fields, "connected_slaves") > 0 {
		return nil, err
	}
	const remedy = "set appendonly yes, or run a replica"
	if s.Config.Dedup.Enabled {
		return warn(remedy, "Redis keeps no log and has no replica: after a restart the dedup store has forgotten all jobs"), nil
	}
	if quota := keyedQuota(s.Config); quota != "" {
		return warn(remedy, "Redis keeps no log and has no replica: after a restart the counts of the quota %s are lost", quota), nil
	}
	return nil, nil
}

// keyedQuota names a quota whose counts the nodes don't remember; empty: there is none.
func keyedQuota(cfg configs.Config) string {
	for _, g := range cfg.Gates() {
		if g.Key != "" && g.Spec.IsQuota() {
			return g.Name
		}
	}
	return ""
}

// roundTrip compares the way to Redis and back with the lateness, within which Redis's clock must be known, and with
// the horizon.
func roundTrip(ctx context.Context, s *setup) ([]Finding, error) {
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	trip, c := s.trip.Round(10*time.Microsecond), s.contract
	const nearer = "bring Redis nearer, such as into the same zone, or raise lateness and guard"
	switch {
	case s.trip >= c.Lateness:
		return fault(nearer, "the round trip to Redis is %s, and the lateness of the limit is %s: nothing is sent", trip, c.Lateness), nil
	case s.trip > c.Lateness/2:
		return warn(nearer, "the round trip to Redis is %s, which leaves less than half of the lateness of %s: slots will be late", trip, c.Lateness), nil
	case s.trip+s.Lead > c.Horizon && kindOf(s.algorithm).Ahead:
		return warn("raise horizon, or bring Redis nearer",
			"the round trip to Redis is %s, and workers get a job up to %s before its slot: together more than the horizon of %s", trip, s.Lead, c.Horizon), nil
	}
	return nil, nil
}

func kindOf(algorithm string) limit.Algorithm {
	kind, _ := limit.AlgorithmNamed(algorithm) // settings hold none that is unknown
	return kind
}

// apart is by how much the clocks of two hosts may differ.
const apart = 500 * time.Millisecond

// hostClock compares this host's clock with Redis's.
func hostClock(ctx context.Context, s *setup) ([]Finding, error) {
	if err := s.read(ctx); err != nil || s.offset.Abs() <= apart {
		return nil, err
	}
	way := "behind"
	if s.offset < 0 {
		way = "ahead of"
	}
	return warn("have chrony or another NTP client keep both clocks",
		"this host's clock is %s %s Redis's: not-before, not-after and the times of retry topics go by the host's, calendar quotas and ends of overrides by Redis's",
		s.offset.Abs().Round(10*time.Millisecond), way), nil
}
