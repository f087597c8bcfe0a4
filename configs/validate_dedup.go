package configs

import (
	"time"

	"dispatcher/throttle/limit"
)

// Bounds of the dedup store. A window of less than ten holds would be mostly claims.
const (
	minDedupWindow = time.Minute
	maxDedupWindow = 31 * 24 * time.Hour
	minDedupMargin = 20 * time.Millisecond
	maxDedupMargin = time.Minute
	holdsInWindow  = 10
)

// dedup: it lies in the fleet's Redis, and nothing is called without that.
func (f *faults) dedup(c Config) {
	l, timeout := c.Dedup, c.Sender.HTTP.Timeout
	f.refuse(l.Window < minDedupWindow || l.Window > maxDedupWindow, "dedup.window", l.Window, "must be from 1m to 744h")
	f.refuse(l.Margin < minDedupMargin || l.Margin > maxDedupMargin, "dedup.margin", l.Margin, "must be from 20ms to 1m")
	if !l.Enabled {
		return
	}
	hold := l.Hold(timeout)
	f.refuse(hold > l.Window/holdsInWindow, "dedup.window", l.Window,
		"must be at least ten times the hold of %s: sender.http.timeout of %s and twice dedup.margin of %s", hold, timeout, l.Margin)
	head := c.Kafka.JobTimeout
	f.refuse(head != 0 && head <= hold, "kafka.job_timeout", head,
		"must be above the dedup store's hold of %s (sender.http.timeout and twice dedup.margin), or 0s for none: a job may have to wait for that", hold)
	for _, one := range c.Limits {
		f.refuse(one.Degraded == limit.DegradedReserve, "dedup.enabled", l.Enabled,
			"can't be together with degraded: reserve: without Redis no job can be claimed")
		f.refuse(one.Scope == limit.ScopeNode, "dedup.enabled", l.Enabled,
			"can't be together with scope: node: the dedup store lies in the fleet's Redis, which is not asked then")
	}
}
