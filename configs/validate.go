package configs

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"dispatcher/consumer"
	"dispatcher/internal/fault"
	"dispatcher/throttle"
)

// Bounds on sizes that come from outside.
const (
	maxAttempts = 1000
	maxFailures = 100_000
	maxDuration = time.Hour
)

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
		case e.Value == fault.Hidden && e.Field == tokenKey:
			f.refuse(true, e.Field, redactURL(f.config.Kafka.SASL.OAuth.TokenURL), "%s", e.Remedy)
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
	f.kafka(c.Kafka, c.Sender.OnUnknown == UnknownPark)
	f.redis(c.Redis)
	f.limits(c.Limits)
	f.sender(c.Sender)
	f.dedup(c)
	f.timing(c)
	f.under("admin", c.Admin.Validate())
	return f.found
}

func (f *faults) kafka(k consumer.Config, parks bool) {
	k.ParkUnknown = parks
	f.under("kafka", k.Validate())
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

// timing: a call in flight must end before its partition is given up.
func (f *faults) timing(c Config) {
	drain, timeout := c.Kafka.Drain, c.Sender.HTTP.Timeout
	f.refuse(timeout >= drain, "sender.http.timeout", timeout,
		"must be below kafka.drain of %s, or a call outlives its partition; raise kafka.drain (and kafka.session with it)", drain)
	f.refuse(c.Kafka.JobTimeout != 0 && c.Kafka.JobTimeout <= timeout, "kafka.job_timeout", c.Kafka.JobTimeout,
		"must be above sender.http.timeout of %s, or 0s for no bound", timeout)
}
