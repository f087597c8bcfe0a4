package configs

import (
	"errors"
	"strconv"
	"time"

	"dispatcher/internal/fault"
	"dispatcher/internal/loglevel"
	"dispatcher/throttle/limit"
)

// Validate returns everything that is wrong with the values: each fault names the
// field's path, the value and the remedy. Secrets are not shown.
func (c Config) Validate() error { return errors.Join(c.faultsBeside(nil)...) }

// faultsBeside are the faults of all settings but those that could not be read. A
// value that came from a reference is shown as that reference.
func (c Config) faultsBeside(unread []string) []error {
	var found []error
	_, values := c.shown()
	for _, e := range fault.All(c.check()) {
		if concerns(e.Field, unread) {
			continue
		}
		value, ok := values[e.Field]
		list, isList := e.Value.([]string)
		switch {
		case ok:
			e.Value = value
		case isList:
			e.Value = shownList(e.Field, list, values)
		case e.Value == fault.Hidden:
			e.Value = fault.Phrase(redacted)
		}
		found = append(found, e)
	}
	return found
}

func shownList(path string, list []string, values map[string]any) []any {
	shown := make([]any, len(list))
	for i, text := range list {
		shown[i] = text
		if value, ok := values[path+"."+strconv.Itoa(i)]; ok {
			shown[i] = value
		}
	}
	return shown
}

// check asks the owner of each section, and compares the sections with each other.
func (c Config) check() error {
	var l fault.List
	l.Under("", limit.CheckNode("node", c.Node))
	l.Under("log", c.Log.validate())
	kafka := c.Kafka
	kafka.ParkUnknown = c.Sender.OnUnknown == UnknownPark
	l.Under("kafka", kafka.Validate())
	l.Under("redis", c.Redis.validate())
	l.Under("", c.checkLimits())
	l.Under("sender", c.Sender.validate())
	l.Under("dedup", c.Dedup.Validate())
	l.Under("admin", c.Admin.Validate())
	l.Under("tracing", c.Tracing.Validate())
	c.checkTimes(&l)
	if c.Dedup.Enabled {
		c.checkDedup(&l)
	}
	return l.Err()
}

// checkTimes: a call in flight must end before the node gives up its partition.
func (c Config) checkTimes(l *fault.List) {
	drain, timeout := c.Kafka.Drain, c.Sender.HTTP.Timeout
	l.Refuse(timeout >= drain, "sender.http.timeout", timeout,
		"must be below kafka.drain of %s, or a call outlives its partition; raise kafka.drain (and kafka.session with it)", drain)
	l.Refuse(c.Kafka.JobTimeout != 0 && c.Kafka.JobTimeout <= timeout, "kafka.job_timeout", c.Kafka.JobTimeout,
		"must be above sender.http.timeout of %s, or 0s for no bound", timeout)
}

// checkDedup: the store lies in the fleet's Redis, and no job is called without it.
func (c Config) checkDedup(l *fault.List) {
	timeout := c.Sender.HTTP.Timeout
	l.Under("dedup", c.Dedup.ValidateHold(timeout))
	hold, bound := c.Dedup.Hold(timeout), c.Kafka.JobTimeout
	l.Refuse(bound != 0 && bound <= hold, "kafka.job_timeout", bound,
		"must be above the dedup store's hold of %s (sender.http.timeout and twice dedup.margin), or 0s for no bound: a job may have to wait for the hold", hold)
	for _, one := range c.Limits {
		l.Refuse(one.Degraded == limit.DegradedReserve, "dedup.enabled", true,
			"can't be together with degraded: reserve: without Redis no job can be claimed")
		l.Refuse(one.Scope == limit.ScopeNode, "dedup.enabled", true,
			"can't be together with scope: node: the dedup store lies in the fleet's Redis, which is not asked then")
	}
}

func (g Log) validate() error {
	var l fault.List
	l.OneOf("level", g.Level, loglevel.Names()...)
	l.OneOf("format", g.Format, "text", "json")
	return l.Err()
}

func (r Redis) validate() error {
	var l fault.List
	l.Refuse(len(r.Addrs) == 0, "addrs", r.Addrs, "name at least one")
	for i, addr := range r.Addrs {
		l.Address("addrs."+strconv.Itoa(i), addr, 1)
	}
	const sentinels = "is for sentinels, which need redis.master"
	l.Refuse(r.Master != "" && r.Cluster, "cluster", r.Cluster, "can't be together with redis.master")
	l.Refuse(r.Master == "" && r.SentinelUsername != "", "sentinel_username", r.SentinelUsername, sentinels)
	l.Refuse(r.Master == "" && r.SentinelPassword != "", "sentinel_password", fault.Hidden, sentinels)
	l.Under("", limit.CheckName("namespace", r.Namespace))
	l.Under("tls", r.TLS.Validate())
	return l.Err()
}

func (s Sender) validate() error {
	var l fault.List
	const least, most = time.Millisecond, time.Hour // anything else is surely a slip
	l.Under("http", s.HTTP.Validate())
	l.OneOf("on_unknown", s.OnUnknown, UnknownRetry, UnknownPark, UnknownDead)
	l.Within("retry.attempts", s.Retry.Attempts, 1, 1000)
	l.Between("retry.backoff", s.Retry.Backoff, least, most)
	l.Refuse(s.Retry.MaxBackoff < s.Retry.Backoff, "retry.max_backoff", s.Retry.MaxBackoff,
		"must be at least sender.retry.backoff of %s", s.Retry.Backoff)
	l.Within("breaker.failures", s.Breaker.Failures, 1, 100_000)
	l.Between("breaker.probe", s.Breaker.Probe, least, most)
	return l.Err()
}
