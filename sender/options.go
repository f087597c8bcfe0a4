package sender

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// What holds where an option is zero.
const (
	DefaultTimeout          = 5 * time.Second
	DefaultDialTimeout      = 3 * time.Second
	DefaultIdleTimeout      = 30 * time.Second
	DefaultMaxResponseBytes = 64 << 10
)

// HTTPOptions says how the provider is called. Only URL is required.
type HTTPOptions struct {
	URL     string // absolute, http or https, without user information
	Method  string // GET, POST, PUT, PATCH or DELETE; default POST
	Timeout time.Duration
	// DialTimeout bounds getting a connection, TLS included.
	DialTimeout time.Duration
	// IdleTimeout is how long an idle connection may wait for its next call. It
	// should be shorter than the provider's own: a connection that the provider
	// closes while a call is being written makes that call's fate unknown.
	IdleTimeout time.Duration
	// Headers are sent with every call and win over what the job says. Host is
	// honoured; what belongs to the connection or names the job is refused.
	Headers map[string]string
	// MaxConnAge is for how long a connection is taken for calls; up to a quarter
	// less, so that not all end at once. A call is never cut. 0: without a bound.
	MaxConnAge time.Duration
	// TLS makes the settings of one handshake, for https. Nil: the system's roots.
	TLS func() *tls.Config
	// MaxResponseBytes is how much of an answer's body is read. A longer answer
	// still counts, but costs the connection.
	MaxResponseBytes int64
	// Results says what statuses mean that are not as by default: a status (404) or
	// a range (500-599), and one of [ResultNames]. A status wins over a range.
	Results map[string]string
	// MessageID says where in an answer the provider names the message:
	// header:NAME, or json:PATH with the dotted path of a text or a number, where
	// a whole number is a place in a list. Empty: nowhere.
	MessageID string
	// KeepAnswers keeps the beginning of each answer that did not accept its job, as
	// [Result.Answer].
	KeepAnswers bool
	CloudEvents EventMode // how structured events are sent; default as_is
	// OnRoundTrip is called with the round trip of each new connection's TCP handshake,
	// where the system can tell it. It must not block. Nil: nobody is told.
	OnRoundTrip func(time.Duration)
	// DialContext opens the connections below TLS. Nil: a [net.Dialer].
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)

	Logger     *slog.Logger          // nil: nothing is logged
	Registerer prometheus.Registerer // nil: metrics are not exported
}

func (o HTTPOptions) withDefaults() HTTPOptions {
	o.Method = cmp.Or(o.Method, http.MethodPost)
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.DialTimeout = cmp.Or(o.DialTimeout, DefaultDialTimeout)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, DefaultIdleTimeout)
	o.MaxResponseBytes = cmp.Or(o.MaxResponseBytes, DefaultMaxResponseBytes)
	o.CloudEvents = cmp.Or(o.CloudEvents, EventsAsIs)
	if o.DialContext == nil {
		o.DialContext = new(net.Dialer).DialContext
	}
	if o.TLS == nil {
		o.TLS = func() *tls.Config { return new(tls.Config) }
	}
	if o.OnRoundTrip == nil {
		o.OnRoundTrip = func(time.Duration) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// validate names every fault at once, so that a config is corrected in one go.
func (o HTTPOptions) validate() error {
	_, errURL := parseURL(o.URL)
	errs := []error{errURL, checkMethod(o.Method), checkHeaders(o.Headers), CheckMessageID(o.MessageID), CheckResults(o.Results), o.CloudEvents.check()}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"timeout", o.Timeout}, {"dial_timeout", o.DialTimeout}, {"idle_timeout", o.IdleTimeout}} {
		if d.value <= 0 {
			errs = append(errs, fmt.Errorf("%s: %v is not a positive duration", d.name, d.value))
		}
	}
	if o.MaxConnAge < 0 {
		errs = append(errs, fmt.Errorf("max_conn_age: %v is negative; 0 is without a bound", o.MaxConnAge))
	}
	if o.MaxResponseBytes <= 0 || o.MaxResponseBytes > 1<<30 {
		errs = append(errs, fmt.Errorf("max_response_bytes: %d is not between 1 and %d", o.MaxResponseBytes, 1<<30))
	}
	return errors.Join(errs...)
}

// shown is what an error may show of a URL: what else there is may hold a secret.
func shown(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		// The parser's error repeats the address, which may hold a secret.
		return nil, errors.New("url: it can't be parsed as a URL")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("url: %q is neither http nor https", shown(u))
	case u.Hostname() == "":
		return nil, fmt.Errorf("url: %q has no host", shown(u))
	case u.User != nil:
		return nil, fmt.Errorf("url: %q holds user information; set the header Authorization instead", shown(u))
	case u.Fragment != "":
		return nil, fmt.Errorf("url: %q has a fragment, which is never sent", shown(u))
	}
	return u, nil
}

func checkMethod(m string) error {
	known := []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	if slices.Contains(known, m) {
		return nil
	}
	return fmt.Errorf("method: %q is none of %s", m, strings.Join(known, ", "))
}

// checkHeaders names a faulty header and never its value: that may be a secret.
func checkHeaders(headers map[string]string) error {
	var errs []error
	seen := make(map[string]string, len(headers))
	for name, value := range headers {
		canonical := http.CanonicalHeaderKey(name)
		other, twice := seen[canonical]
		seen[canonical] = name
		switch {
		case !isToken(name):
			errs = append(errs, fmt.Errorf("headers: %q is not a header name", name))
		case twice:
			errs = append(errs, fmt.Errorf("headers: %q and %q are the same header", min(name, other), max(name, other)))
		case reserved(canonical):
			errs = append(errs, fmt.Errorf("headers: %q is set for each call and can't be configured", name))
		case !isHeaderValue(value):
			errs = append(errs, fmt.Errorf("headers: the value of %q has bytes that no header may hold", name))
		}
	}
	return errors.Join(errs...)
}

// reserved tells the headers whose meaning is the connection's or the job's: a
// configured length would cut the body, Expect would split the write, and one
// idempotency key for all would make the provider drop every job but the first.
func reserved(canonical string) bool {
	switch canonical {
	case "Content-Length", "Transfer-Encoding", "Trailer", "Connection", "Keep-Alive", "Te", "Upgrade", "Expect",
		"Proxy-Connection", idempotencyKey:
		return true
	}
	return false
}
