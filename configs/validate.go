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
	"dispatcher/sender"
	"dispatcher/throttle/limit"
)

// Bounds on sizes that come from outside.
const (
	maxWorkers       = 65536
	maxAsleep        = 1 << 20
	minAsleepBytes   = 1 << 20
	maxAsleepBytes   = 1 << 30
	minJobBytes      = 1 << 10
	maxJobBytes      = 64 << 20
	maxResponseBytes = 16 << 20
	maxAttempts      = 1000
	maxFailures      = 100_000
	maxHeaders       = 100
	maxHeartbeat     = time.Second
	maxDuration      = time.Hour
	maxConnAge       = 24 * time.Hour
	maxJobTimeout    = 24 * time.Hour
	minStalledAfter  = 5 * time.Second
	maxStalledAfter  = time.Hour
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

func (f *faults) tls(path string, t TLS) {
	if err := t.check(); err != nil {
		f.add(path, fmt.Errorf("%s.%w", path, err))
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
	if c.Admin.Listen != "" {
		f.address("admin.listen", c.Admin.Listen, 0)
	}
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
	f.tls("kafka.tls", k.TLS)
}

func (f *faults) redis(r Redis) {
	f.refuse(len(r.Addrs) == 0, "redis.addrs", r.Addrs, "name at least one")
	for i, addr := range r.Addrs {
		f.address("redis.addrs."+strconv.Itoa(i), addr, 1)
	}
	f.refuse(r.Master != "" && r.Cluster, "redis.cluster", r.Cluster, "can't be together with redis.master of %s", r.Master)
	f.refuse(r.Master == "" && r.SentinelUsername != "", "redis.sentinel_username", r.SentinelUsername, "there are sentinels only with redis.master")
	f.refuse(r.Master == "" && r.SentinelPassword != "", "redis.sentinel_password", "***", "there are sentinels only with redis.master")
	f.contract("redis.", limit.CheckName("namespace", r.Namespace))
	f.tls("redis.tls", r.TLS)
}

func (f *faults) limits(limits []Limit) {
	f.refuse(len(limits) != 1, "limits", count(len(limits)), "exactly one limit is supported for now")
	for i, l := range limits {
		path := "limits." + strconv.Itoa(i) + "."
		f.contract(path, limit.CheckName("name", l.Name))
		_, noGuard := l.guard()
		f.refuse(noGuard != nil, path+"guard", l.Guard, "must be auto, or a duration with a unit, such as 10ms")
		f.contract(path, l.Stated().Validate())
	}
}

// contract takes over the limiter's own faults under the paths of the file.
func (f *faults) contract(path string, err error) {
	for _, err := range joined(err) {
		fe, ok := errors.AsType[*fault.Error](err)
		if !ok {
			path := strings.TrimSuffix(path, ".")
			f.add(path, fmt.Errorf("%s: %w", path, err))
			continue
		}
		f.refuse(true, path+fe.Field, fe.Value, "%s", fe.Remedy)
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
	f.oneOf("sender.http.method", s.HTTP.Method, "POST", "PUT", "PATCH", "GET", "DELETE")
	f.url(urlKey, s.HTTP)
	f.positive("sender.http.timeout", s.HTTP.Timeout)
	f.positive("sender.http.dial_timeout", s.HTTP.DialTimeout)
	f.positive("sender.http.idle_timeout", s.HTTP.IdleTimeout)
	f.refuse(s.HTTP.MaxConnAge != 0 && (s.HTTP.MaxConnAge < time.Second || s.HTTP.MaxConnAge > maxConnAge), "sender.http.max_conn_age", s.HTTP.MaxConnAge,
		"must be from 1s to %s, or 0s for no bound", maxConnAge)
	f.within("sender.http.max_response_bytes", s.HTTP.MaxResponseBytes, 1, maxResponseBytes)
	f.refuse(sender.CheckMessageID(s.HTTP.MessageID) != nil, "sender.http.message_id", s.HTTP.MessageID,
		"must be empty, header:NAME, or json:PATH as in json:messages.0.id")
	f.oneOf("sender.http.cloud_events", s.HTTP.CloudEvents, string(sender.EventsAsIs), string(sender.EventsBinary))
	for _, err := range joined(sender.CheckResults(s.HTTP.Results)) {
		if bad, ok := errors.AsType[*sender.ResultError](err); ok {
			f.refuse(true, "sender.http.results."+bad.Status, bad.Value, "%s", bad.Why)
		}
	}
	f.headers("sender.http.headers", s.HTTP.Headers)
	f.tls("sender.http.tls", s.HTTP.TLS)
	f.oneOf("sender.on_unknown", s.OnUnknown, UnknownRetry, UnknownPark, UnknownDead)
	f.within("sender.retry.attempts", s.Retry.Attempts, 1, maxAttempts)
	f.positive("sender.retry.backoff", s.Retry.Backoff)
	f.refuse(s.Retry.MaxBackoff < s.Retry.Backoff, "sender.retry.max_backoff", s.Retry.MaxBackoff,
		"must be at least sender.retry.backoff of %s", s.Retry.Backoff)
	f.within("sender.breaker.failures", s.Breaker.Failures, 1, maxFailures)
	f.positive("sender.breaker.probe", s.Breaker.Probe)
}

func (f *faults) url(path string, h HTTP) {
	scheme, shown := f.plainURL(path, h.URL, "sender.http.headers")
	f.refuse(h.TLS.Enabled && scheme == "http", path, shown, "is not encrypted, but sender.http.tls.enabled is true")
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

// headers that the call sets itself, or that would break it. A fixed
// idempotency key would make all jobs one.
func (f *faults) headers(path string, headers map[string]string) {
	f.refuse(len(headers) > maxHeaders, path, count(len(headers)), "at most %d are sent", maxHeaders)
	own := []string{
		"connection", "content-length", "expect", "idempotency-key", "keep-alive", "proxy-connection",
		"te", "trailer", "transfer-encoding", "upgrade",
	}
	names := make([]string, 0, len(headers))
	for name := range headers {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		at, value := path+"."+name, headers[name]
		f.refuse(!isToken(name), at, phrase(redacted), "is no name of a header")
		f.refuse(slices.Contains(own, name), at, phrase(redacted), "is set by the call itself")
		f.refuse(strings.ContainsFunc(value, unprintable), at, phrase(redacted), "holds a line break or another control character")
	}
}

func unprintable(r rune) bool { return (r < ' ' && r != '\t') || r == 0x7f }

// isToken says that a name can be a header's (RFC 9110, 5.6.2).
func isToken(name string) bool {
	const special = "!#$%&'*+-.^_`|~"
	return name != "" && len(name) <= 200 && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(special, r)
	})
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
