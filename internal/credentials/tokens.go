package credentials

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
	"golang.org/x/sync/singleflight"
)

const (
	// askTimeout bounds one request to a token endpoint.
	askTimeout = 10 * time.Second
	// renewBefore is how long before its end a token is renewed, or a fifth of its
	// life if that is less.
	renewBefore = time.Minute
	// lastAfter is how long a new token is awaited while the last one is valid. A connection to a broker
	// has little more time than that.
	lastAfter = time.Second
)

// errorCode is the only part of an answer that is shown, such as invalid_client.
var errorCode = regexp.MustCompile(`^[a-z_]{1,64}$`)

// Endpoint is where and how to get a token by client credentials (OAuth 2.0, RFC 6749,
// 4.4).
type Endpoint struct {
	URL      string
	ClientID string
	Secret   func() string // the client's secret, as it is now
	Scopes   []string      // none: the endpoint decides
	Audience string        // of the token, which some endpoints require; empty: not stated

	Transport http.RoundTripper // nil: the standard one
	Log       *slog.Logger      // nil: nothing is logged
}

// OverTLS is a transport that makes each request on a new connection with the current
// settings, because hours may lie between two requests.
type OverTLS func() *tls.Config

// RoundTrip makes one request.
func (conf OverTLS) RoundTrip(r *http.Request) (*http.Response, error) {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: conf(), ForceAttemptHTTP2: true, DisableKeepAlives: true}
	return t.RoundTrip(r)
}

// Tokens gets tokens from an [Endpoint]. Its methods may be called from any
// goroutine; several that want a token at once share one request.
type Tokens struct {
	endpoint Endpoint
	client   *http.Client
	conf     *clientcredentials.Config // only the request under way uses it
	asking   singleflight.Group

	mu     sync.Mutex // never held while the endpoint is asked
	token  string
	renew  time.Time // when a new token is requested
	ends   time.Time // zero: there is no token, or its end is not known
	warned bool      // the last request failed, and was logged
}

// NewTokens makes no request yet.
func NewTokens(e Endpoint) *Tokens {
	client := &http.Client{
		Transport: e.Transport,
		// A redirect would carry the secret elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	e.Log = cmp.Or(e.Log, slog.New(slog.DiscardHandler))
	conf := &clientcredentials.Config{ClientID: e.ClientID, TokenURL: e.URL, Scopes: e.Scopes}
	if e.Audience != "" {
		conf.EndpointParams = url.Values{"audience": {e.Audience}}
	}
	return &Tokens{endpoint: e, client: client, conf: conf}
}

// Token returns a token that is not about to end. If the endpoint gives none, or is slow, it
// returns the last one until that ends, and then the error, which holds no secret.
func (t *Tokens) Token(ctx context.Context) (string, error) {
	now := time.Now()
	t.mu.Lock()
	last, fresh, valid := t.token, now.Before(t.renew), now.Before(t.ends)
	t.mu.Unlock()
	if fresh {
		return last, nil
	}
	waits := ctx
	if valid {
		var cancel context.CancelFunc
		waits, cancel = context.WithTimeout(ctx, lastAfter)
		defer cancel()
	}
	// The request goes on when ctx ends: others may wait for it as well.
	asked := t.asking.DoChan("", func() (any, error) { return t.ask(context.WithoutCancel(ctx)) })
	select {
	case r := <-asked:
		token, _ := r.Val.(string)
		return token, r.Err
	case <-waits.Done():
		if valid {
			return last, nil
		}
		return "", context.Cause(waits)
	}
}

// ask gets another token. There is one call at a time.
func (t *Tokens) ask(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, oauth2.HTTPClient, t.client), askTimeout)
	defer cancel()
	t.conf.ClientSecret = t.endpoint.Secret()
	asked := time.Now()
	got, err := t.conf.Token(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		return t.keep(t.explain(err))
	}
	if t.warned {
		t.endpoint.Log.Info("token endpoint answers again")
	}
	t.warned, t.token, t.ends = false, got.AccessToken, got.Expiry
	// Without an end the token serves this connection only.
	t.renew = asked
	if !t.ends.IsZero() {
		t.renew = t.ends.Add(-min(renewBefore, t.ends.Sub(asked)/5))
	}
	return t.token, nil
}

// keep returns the last token as long as it is valid. The lock is held.
func (t *Tokens) keep(why error) (string, error) {
	if !time.Now().Before(t.ends) {
		return "", why
	}
	if !t.warned {
		t.endpoint.Log.Warn("token endpoint gave no token; the last one stays in use until it ends", "ends", t.ends, "error", why)
		t.warned = true
	}
	return t.token, nil
}

// explain hides the endpoint's text, which may repeat the request. Only its error code is
// shown.
func (t *Tokens) explain(err error) error {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		status := refused.Response.StatusCode
		if errorCode.MatchString(refused.ErrorCode) {
			return fmt.Errorf("the token endpoint answered %d %s", status, refused.ErrorCode)
		}
		return fmt.Errorf("the token endpoint answered %d", status)
	}
	// Its cause alone: the URL's parameters may be secret.
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("ask the token endpoint: %w", failed.Err)
	}
	return errors.New("the token endpoint's answer holds no token")
}
