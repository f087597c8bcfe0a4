package control

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/throttle/internal/script"
	"dispatcher/throttle/lateness"
	"dispatcher/throttle/limit"
)

// Now is the clock of the Redis that holds the limit.
func (c *Control) Now(ctx context.Context) (time.Time, error) {
	rdb, err := Holder(ctx, c.rdb, c.Keys.Limit)
	if err != nil {
		return time.Time{}, err
	}
	now, err := rdb.Time(ctx).Result()
	if err != nil {
		return time.Time{}, fmt.Errorf("read redis's clock: %w", err)
	}
	return now, nil
}

// RoundTrips returns those that the nodes of a limit reported up to now, by Redis's
// clock. There are none where the guard is stated.
func (c *Control) RoundTrips(ctx context.Context, now time.Time) (lateness.RoundTrips, error) {
	fields, err := c.rdb.HGetAll(ctx, c.Keys.Lateness).Result()
	if err != nil {
		return lateness.RoundTrips{}, fmt.Errorf("read the round trips of limit %q: %w", c.name, err)
	}
	return lateness.ReadRoundTrips(fields, now.UnixMicro()), nil
}

// Holder is the server that holds a key. Of a single server and of Sentinel it is the client itself.
func Holder(ctx context.Context, rdb redis.UniversalClient, key string) (redis.Cmdable, error) {
	cluster, ok := rdb.(*redis.ClusterClient)
	if !ok {
		return rdb, nil
	}
	master, err := cluster.MasterForKey(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("find the master that holds %s: %w", key, err)
	}
	return master, nil
}

// Limits returns the names of the limits that Redis holds in a namespace. A
// namespace lies on one server of a Cluster.
func Limits(ctx context.Context, rdb redis.UniversalClient, namespace string) ([]string, error) {
	if err := limit.CheckName("namespace", namespace); err != nil {
		return nil, err
	}
	prefix := script.KeysOf(namespace, "").Limit
	server, err := Holder(ctx, rdb, prefix)
	if err != nil {
		return nil, err
	}
	names := []string{}
	const page = 1000
	keys := server.Scan(ctx, 0, prefix+"*", page).Iterator()
	for keys.Next(ctx) {
		names = append(names, strings.TrimPrefix(keys.Val(), prefix))
	}
	if err := keys.Err(); err != nil {
		return nil, fmt.Errorf("list the limits of namespace %q: %w", namespace, err)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
