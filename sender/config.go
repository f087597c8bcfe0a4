package sender

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"dispatcher/internal/fault"
	"dispatcher/internal/tlsfiles"
)

// Config is the section sender.http: how the provider is called.
type Config struct {
	URL         string        `yaml:"url"` // absolute, http or https, without a user
	Method      string        `yaml:"method"`
	Timeout     time.Duration `yaml:"timeout"`      // from the first byte written to the end of the answer
	DialTimeout time.Duration `yaml:"dial_timeout"` // for a new connection, TLS included
	// IdleTimeout is how long an idle connection may wait for its next call. It
	// should be shorter than the provider's own: a call that is written while the
	// provider closes its connection may or may not be done.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
	// MaxConnAge is how long a connection is used for new calls; up to a quarter
	// less, so that not all end at once. A call is never cut. 0: without a bound.
	MaxConnAge time.Duration `yaml:"max_conn_age"`
	// MaxResponseBytes is how much of an answer's body is read. A longer answer
	// still counts, but costs the connection.
	MaxResponseBytes int `yaml:"max_response_bytes"`
	// KeepAnswers keeps the beginning of each answer that did not accept its job, as
	// [Result.Answer].
	KeepAnswers bool `yaml:"keep_answers"`
	// MessageID says where in an answer the provider names the message:
	// header:NAME, or json:PATH with the dotted path of a text or a number, where
	// a whole number is a place in a list. Empty: nowhere.
	MessageID string `yaml:"message_id"`
	// Units says where in an answer the provider names the units that it counted for the
	// call, likewise. Empty: nowhere.
	Units string `yaml:"units"`
	// ThrottledLimit says where a throttled answer says which limit it is about, likewise.
	// Empty: nowhere.
	ThrottledLimit string    `yaml:"throttled_limit"`
	CloudEvents    EventMode `yaml:"cloud_events"` // how structured events are sent
	Results        Results   `yaml:"results"`
	// Headers are sent with every call and win over the job's own. Host is honoured;
	// headers that belong to the connection or name the job are refused.
	Headers map[string]string `yaml:"headers"`
	TLS     tlsfiles.Settings `yaml:"tls"`
}

// Bounds of the settings.
const (
	leastDuration    = time.Millisecond // less is surely a slip, and so is more than an hour
	mostDuration     = time.Hour
	leastConnAge     = time.Second
	mostConnAge      = 24 * time.Hour
	mostResponseSize = 16 << 20
	mostHeaders      = 100
	longestName      = 200 // bytes of a header's name
)

// Validate returns every fault at once. It shows no secret: neither values of
// headers nor a URL that may hold one.
func (c Config) Validate() error {
	var l fault.List
	c.checkURL(&l)
	l.OneOf("method", c.Method, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodGet, http.MethodDelete)
	l.Between("timeout", c.Timeout, leastDuration, mostDuration)
	l.Between("dial_timeout", c.DialTimeout, leastDuration, mostDuration)
	l.Between("idle_timeout", c.IdleTimeout, leastDuration, mostDuration)
	l.Refuse(c.MaxConnAge != 0 && (c.MaxConnAge < leastConnAge || c.MaxConnAge > mostConnAge), "max_conn_age", c.MaxConnAge,
		"must be from %s to %s, or 0s for no bound", leastConnAge, mostConnAge)
	l.Within("max_response_bytes", c.MaxResponseBytes, 1, mostResponseSize)
	_, found := parsePlace(c.MessageID)
	l.Refuse(!found, "message_id", c.MessageID, atPlace, "messages.0.id", mostSteps)
	_, found = parsePlace(c.Units)
	l.Refuse(!found, "units", c.Units, atPlace, "usage.total_tokens", mostSteps)
	_, found = parsePlace(c.ThrottledLimit)
	l.Refuse(!found, "throttled_limit", c.ThrottledLimit, atPlace, "error.code", mostSteps)
	l.OneOf("cloud_events", string(c.CloudEvents), string(EventsAsIs), string(EventsBinary))
	c.Results.parse(&l)
	c.checkHeaders(&l)
	l.Under("tls", c.TLS.Validate())
	if l.Err() == nil { // net/http looks at the host only when it writes, which is after the permit
		l.Refuse(newTemplate(c).check() != nil, "url", fault.Hidden, "no request can name this host; correct it, or the header host")
	}
	return l.Err()
}

func (c Config) checkURL(l *fault.List) {
	l.URL("url", c.URL, "sender.http.headers")
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" {
		return
	}
	l.Refuse(u.Hostname() == "", "url", fault.Hidden, "has no host")
	l.Refuse(strings.ContainsFunc(u.Hostname(), func(r rune) bool { return r > unicode.MaxASCII }), "url", fault.Hidden,
		"has a host that is not ASCII; write it in Punycode (xn--...), as DNS has it")
	l.Refuse(c.TLS.Enabled && u.Scheme == "http", "url", fault.Hidden, "is not encrypted, but sender.http.tls.enabled is true")
}

func (c Config) checkHeaders(l *fault.List) {
	l.Refuse(len(c.Headers) > mostHeaders, "headers", fault.Entries(len(c.Headers)), "at most %d are sent", mostHeaders)
	names := make(map[string]string, len(c.Headers))
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		value, field, canonical := c.Headers[name], "headers."+name, http.CanonicalHeaderKey(name)
		other, twice := names[canonical]
		names[canonical] = name
		l.Refuse(!IsHeaderName(name), field, fault.Hidden, "is no name of a header")
		l.Refuse(twice, field, fault.Hidden, "is the same header as %s; state it once", other)
		l.Refuse(reserved(canonical), field, fault.Hidden, "is set by the call itself")
		l.Refuse(!isHeaderValue(value), field, fault.Hidden, "holds a line break or another control character")
	}
}

// reserved tells the headers that belong to the connection or to the job. A
// configured length would cut the body, and Expect would split the write. With one
// idempotency key for all jobs the provider would drop every job but the first.
func reserved(canonical string) bool {
	switch canonical {
	case "Content-Length", "Transfer-Encoding", "Trailer", "Connection", "Keep-Alive", "Te", "Upgrade", "Expect",
		"Proxy-Connection", idempotencyKey:
		return true
	}
	return false
}

// IsHeaderName reports whether a header can have this name (RFC 9110, 5.6.2).
func IsHeaderName(name string) bool {
	for i := range len(name) {
		c := name[i]
		alnum := '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
		if !alnum && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return name != "" && len(name) <= longestName
}

// isHeaderValue: no control bytes but the tab (RFC 9110, 5.5).
func isHeaderValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
