package configs

import "dispatcher/throttle"

// dedup: the store lies in the fleet's Redis, and no job is called without that.
func (f *faults) dedup(c Config) {
	f.under("dedup", c.Dedup.Validate())
	if !c.Dedup.Enabled {
		return
	}
	timeout := c.Sender.HTTP.Timeout
	f.under("dedup", c.Dedup.ValidateHold(timeout))
	hold, head := c.Dedup.Hold(timeout), c.Kafka.JobTimeout
	f.refuse(head != 0 && head <= hold, "kafka.job_timeout", head,
		"must be above the dedup store's hold of %s (sender.http.timeout and twice dedup.margin), or 0s for none: a job may have to wait for that", hold)
	for _, limit := range c.Limits {
		f.refuse(limit.Degraded == DegradedReserve, "dedup.enabled", c.Dedup.Enabled,
			"can't be together with degraded: reserve: without Redis no job can be claimed")
		f.refuse(limit.Scope == string(throttle.ScopeNode), "dedup.enabled", c.Dedup.Enabled,
			"can't be together with scope: node: the dedup store lies in the fleet's Redis, which is not asked then")
	}
}
