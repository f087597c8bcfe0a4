package configs

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"dispatcher/internal/fault"
	"dispatcher/throttle"
)

// Bounds on sizes that come from outside.
const (
	maxWorkers      = 65536
	maxAsleep       = 1 << 20
	minAsleepBytes  = 1 << 20
	maxAsleepBytes  = 1 << 30
	minJobBytes     = 1 << 10
	maxJobBytes     = 64 << 20
	maxAttempts     = 1000
	maxFailures     = 100_000
	maxHeartbeat    = time.Second
	maxDuration     = time.Hour
	maxJobTimeout   = 24 * time.Hour
	minStalledAfter = 5 * time.Second
	maxStalledAfter = time.Hour
)

// topicName leaves room for the .dlq of a topic: Kafka takes 249 characters.
var topicName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,245}$`)

// faults collects what Validate finds. It knows the config, to show a value
// that came from a reference as that reference.
type faults struct {
	config *Config
	unread []string // paths whose value is not what was meant; nothing is found there
	found  []error
}

func (f *faults) add(path string, err error) {
	if !slices.ContainsFunc(f.unread, func(unread string) bool { return related(path, unread) }) {
		f.found = append(f.found, err)
	}
}

// phrase is said in place of a value, and so isn't quoted as one.
type phrase string

func count(n int) phrase { return phrase(fmt.Sprintf("%d entries", n)) }

// refuse records a fault of the field at path if bad.
func (f *faults) refuse(bad bool, path string, value any, why string, args ...any) {
	if !bad {
		return
	}
	shown := fmt.Sprint(value)
	if text, ok := value.(string); ok {
		shown = show(text)
	}
	if written, ok := f.config.written[path]; ok {
		shown = asWritten(path, written)
	}
	f.add(path, fmt.Errorf("%s: %s: %s", path, shown, fmt.Sprintf(why, args...)))
}

func (f *faults) oneOf(path, value string, allowed ...string) {
	f.refuse(!slices.Contains(allowed, value), path, value, "must be one of %s", strings.Join(allowed, ", "))
}

func (f *faults) within(path string, value, least, most int) {
	f.refuse(value < least || value > most, path, value, "must be from %d to %d", least, most)
}

// positive also keeps out what is surely a slip: less than a millisecond, more than an hour.
func (f *faults) positive(path string, value time.Duration) {
	f.refuse(value < time.Millisecond || value > maxDuration, path, value, "must be from 1ms to %s", maxDuration)
}

// under takes over the faults that the owner of a section found. A hidden value
// that came from references is shown as these alone, and a URL without its secrets.
func (f *faults) under(path string, err error) {
	var section fault.List
	section.Under(path, err)
	for _, e := range fault.All(section.Err()) {
		written, referred := f.config.written[e.Field]
		switch {
		case e.Value == fault.Hidden && e.Field == urlKey:
			f.refuse(true, e.Field, redactURL(f.config.Sender.HTTP.URL), "%s", e.Remedy)
		case e.Value == fault.Hidden && referred:
			f.add(e.Field, fmt.Errorf("%s: %s: %s", e.Field, references(written), e.Remedy))
		case e.Value == fault.Hidden:
			f.refuse(true, e.Field, phrase(redacted), "%s", e.Remedy)
		default:
			f.refuse(true, e.Field, e.Value, "%s", e.Remedy)
		}
	}
}

// address wants host:port. Port 0 is only good to listen on.
func (f *faults) address(path, value string, leastPort int) {
	host, port, err := net.SplitHostPort(value)
	if mayHoldSecret(value) {
		f.refuse(true, path, phrase(redacted), "must be host:port and no more; credentials have keys of their own")
		return
	}
	f.refuse(err != nil || !isPort(port, leastPort), path, value, "must be host:port")
	f.refuse(err == nil && host == "" && leastPort > 0, path, value, "has no host")
}

func isPort(text string, least int) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n >= least && n <= 65535
}

// Validate says what is wrong with the settings: all of it, each fault with the
// field's path and its value. Secrets are not shown.
func (c Config) Validate() error { return errors.Join(c.faultsBeside(nil)...) }

// faultsBeside are the faults of all settings but those that could not be read.
func (c Config) faultsBeside(unread []string) []error {
	f := &faults{config: &c, unread: unread}
	f.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	f.oneOf("log.format", c.Log.Format, "text", "json")
	f.kafka(c.Kafka)
	f.redis(c.Redis)
	f.limits(c.Limits)
	f.sender(c.Sender)
	f.companions(c)
	f.dedup(c)
	f.timing(c)
	f.under("admin", c.Admin.Validate())
	return f.found
}

func (f *faults) kafka(k Kafka) {
	f.refuse(len(k.Brokers) == 0, "kafka.brokers", k.Brokers, "name at least one")
	for i, broker := range k.Brokers {
		f.address("kafka.brokers."+strconv.Itoa(i), broker, 1)
	}
	f.refuse(!topicName.MatchString(k.Group), "kafka.group", k.Group, "must be 1 to 245 letters, digits and . _ -")
	f.lanes(k)
	f.topics(k)
	f.tiers(k)
	f.oneOf("kafka.order", k.Order, "key", "partition", "none")
	f.within("kafka.workers", k.Workers, 1, maxWorkers)
	f.within("kafka.max_asleep", k.MaxAsleep, 1, maxAsleep)
	f.within("kafka.max_asleep_bytes", k.MaxAsleepBytes, minAsleepBytes, maxAsleepBytes)
	f.within("kafka.max_job_bytes", k.MaxJobBytes, minJobBytes, maxJobBytes)
	f.oneOf("kafka.start_at", k.StartAt, "first", "last")
	f.oneOf("kafka.out_of_range", k.OutOfRange, "earliest", "latest", "stop")
	f.positive("kafka.commit_interval", k.CommitInterval)
	f.refuse(k.CommitInterval > time.Second, "kafka.commit_interval", k.CommitInterval,
		"must be at most 1s: a crash repeats what was settled in it")
	f.positive("kafka.heartbeat", k.Heartbeat)
	f.refuse(k.Heartbeat > maxHeartbeat, "kafka.heartbeat", k.Heartbeat, "must be at most %s", maxHeartbeat)
	f.positive("kafka.session", k.Session)
	f.positive("kafka.drain", k.Drain)
	f.sasl(k.SASL)
	f.under("kafka.tls", k.TLS.Validate())
}

func (f *faults) redis(r Redis) {
	f.refuse(len(r.Addrs) == 0, "redis.addrs", r.Addrs, "name at least one")
	for i, addr := range r.Addrs {
		f.address("redis.addrs."+strconv.Itoa(i), addr, 1)
	}
	f.refuse(r.Master != "" && r.Cluster, "redis.cluster", r.Cluster, "can't be together with redis.master of %s", r.Master)
	f.refuse(r.Master == "" && r.SentinelUsername != "", "redis.sentinel_username", r.SentinelUsername, "there are sentinels only with redis.master")
	f.refuse(r.Master == "" && r.SentinelPassword != "", "redis.sentinel_password", "***", "there are sentinels only with redis.master")
	f.contract("redis.", throttle.CheckName("namespace", r.Namespace))
	f.under("redis.tls", r.TLS.Validate())
}

func (f *faults) limits(limits []Limit) {
	f.refuse(len(limits) != 1, "limits", count(len(limits)), "exactly one limit is supported for now")
	for i, l := range limits {
		path := "limits." + strconv.Itoa(i) + "."
		f.contract(path, throttle.CheckName("name", l.Name))
		_, noGuard := l.guard()
		f.refuse(noGuard != nil, path+"guard", l.Guard, "must be auto, or a duration with a unit, such as 10ms")
		_, err := throttle.Check(l.Algorithm, l.Contract(), l.Rails())
		f.contract(path, err)
		if err == nil {
			f.contract(path, throttle.CheckShare(l.Algorithm, l.Contract()))
		}
		f.contract(path, throttle.CheckScope(throttle.Scope(l.Scope), l.Contract(), l.Algorithm, l.WarmUp))
		f.contract(path, throttle.CheckBucket(l.Bucket(), l.Algorithm, l.Contract()))
		f.degraded(path, l)
	}
}

// degraded: a reserve that nobody uses would only make the limit smaller.
func (f *faults) degraded(path string, l Limit) {
	f.oneOf(path+"degraded", l.Degraded, "", DegradedWait, DegradedReserve)
	f.refuse(l.Degraded == DegradedReserve && l.Reserve == 0 && l.MaxNodes == 0, path+"reserve", l.Reserve,
		"is required with degraded: reserve, and max_nodes as well")
	f.refuse(l.Degraded != DegradedReserve && l.Reserve != 0, path+"reserve", l.Reserve, "must be 0 without degraded: reserve")
	f.refuse(l.Degraded != DegradedReserve && l.MaxNodes != 0, path+"max_nodes", l.MaxNodes, "must be 0 without degraded: reserve")
}

// contract takes over the limiter's own faults under the paths of the file.
func (f *faults) contract(path string, err error) {
	for _, err := range joined(err) {
		fe, ok := errors.AsType[*throttle.FieldError](err)
		if !ok {
			path := strings.TrimSuffix(path, ".")
			f.add(path, fmt.Errorf("%s: %w", path, err))
			continue
		}
		f.refuse(true, path+fe.Field, phrase(fmt.Sprint(fe.Value)), "%s", fe.Why)
	}
}

// joined takes a joined error apart.
func joined(err error) []error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, err := range many.Unwrap() {
			all = append(all, joined(err)...)
		}
		return all
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

func (f *faults) sender(s Sender) {
	f.under("sender.http", s.HTTP.Validate())
	f.oneOf("sender.on_unknown", s.OnUnknown, UnknownRetry, UnknownPark, UnknownDead)
	f.within("sender.retry.attempts", s.Retry.Attempts, 1, maxAttempts)
	f.positive("sender.retry.backoff", s.Retry.Backoff)
	f.refuse(s.Retry.MaxBackoff < s.Retry.Backoff, "sender.retry.max_backoff", s.Retry.MaxBackoff,
		"must be at least sender.retry.backoff of %s", s.Retry.Backoff)
	f.within("sender.breaker.failures", s.Breaker.Failures, 1, maxFailures)
	f.positive("sender.breaker.probe", s.Breaker.Probe)
}

// plainURL wants the URL of a call, without credentials: these have keys of their
// own. It returns the scheme, and the URL as it may be shown.
func (f *faults) plainURL(path, text, credentials string) (scheme, shown string) {
	u, err := url.Parse(text)
	shown = redactURL(text)
	if err != nil && !strings.ContainsAny(text, "@?") {
		shown = text // no place in it for a secret, and the reader needs to see it
	}
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		f.refuse(true, path, shown, "must be an http:// or https:// URL with a host")
		return "", shown
	}
	f.refuse(u.Port() != "" && !isPort(u.Port(), 1), path, shown, "has a port that is none")
	f.refuse(u.User != nil, path, shown, "holds a user; put credentials into %s", credentials)
	f.refuse(u.Fragment != "", path, shown, "holds a fragment, which is never sent")
	return u.Scheme, shown
}

// timing: a call on the wire must end before its partition is given up, and
// the partition must be given up before the group takes it away.
func (f *faults) timing(c Config) {
	drain, timeout := c.Kafka.Drain, c.Sender.HTTP.Timeout
	f.refuse(timeout >= drain, "sender.http.timeout", timeout,
		"must be below kafka.drain of %s, or a call outlives its partition; raise kafka.drain (and kafka.session with it)", drain)
	head := c.Kafka.JobTimeout
	f.refuse(head != 0 && (head <= timeout || head < time.Second || head > maxJobTimeout), "kafka.job_timeout", head,
		"must be from 1s to %s and above sender.http.timeout of %s, or 0s for none", maxJobTimeout, timeout)
	wedged := c.Kafka.StalledAfter
	f.refuse(wedged != 0 && (wedged < minStalledAfter || wedged > maxStalledAfter), "kafka.stalled_after", wedged,
		"must be from %s to %s, or 0s for never", minStalledAfter, maxStalledAfter)
	left := c.Kafka.Session - c.Kafka.Heartbeat
	f.refuse(drain >= left, "kafka.drain", drain,
		"must be below kafka.session less kafka.heartbeat, %s; raise kafka.session above %s", left, drain+c.Kafka.Heartbeat)
}
