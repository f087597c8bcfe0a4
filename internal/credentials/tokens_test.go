package credentials_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"dispatcher/internal/credentials"
)

// endpoint is a token endpoint without a network.
type endpoint struct {
	mu     sync.Mutex
	asked  int
	life   int // seconds; 0: not said
	fault  error
	status int
	delay  time.Duration
}

func (e *endpoint) RoundTrip(r *http.Request) (*http.Response, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked++
	if e.delay > 0 {
		select {
		case <-time.After(e.delay):
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		}
	}
	if e.fault != nil {
		return nil, e.fault
	}
	body := fmt.Sprintf(`{"access_token":"token-%d","token_type":"Bearer","expires_in":%d}`, e.asked, e.life)
	if e.status != http.StatusOK {
		body = `{"error":"invalid_client","error_description":"no such secret: hush"}`
	}
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: e.status, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func tokensOf(e *endpoint, log io.Writer) *credentials.Tokens {
	return credentials.NewTokens(credentials.Endpoint{
		URL: "https://idp.test/token?policy=hush", ClientID: "node", Secret: func() string { return "hush" },
		Transport: e, Log: slog.New(slog.NewTextHandler(log, nil)),
	})
}

// A token is used until shortly before its end: a minute, or a fifth of its life.
func TestATokenIsUsedUntilShortlyBeforeItsEnd(t *testing.T) {
	t.Parallel()
	for life, renew := range map[int]time.Duration{3600: 59 * time.Minute, 100: 80 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			for at, want := range map[time.Duration]string{0: "token-1", renew - time.Second: "token-1", renew + time.Second: "token-2"} {
				tokens := tokensOf(&endpoint{life: life, status: http.StatusOK}, io.Discard)
				if _, err := tokens.Token(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(at)
				if got, err := tokens.Token(t.Context()); got != want || err != nil {
					t.Errorf("life %d s, after %v: got %s, %v, want %s", life, at, got, err, want)
				}
			}
		})
	}
}

// A token whose end is not said serves one connection.
func TestATokenWithoutAnEndServesOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tokens := tokensOf(&endpoint{status: http.StatusOK}, io.Discard)
		for _, want := range []string{"token-1", "token-2"} {
			if got, err := tokens.Token(t.Context()); got != want || err != nil {
				t.Errorf("got %s, %v, want %s", got, err, want)
			}
		}
	})
}

// An endpoint that is away costs nothing while the last token lasts, and is logged
// once. Then its error is returned.
func TestALastTokenOutlivesItsEndpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		e := &endpoint{life: 600, status: http.StatusOK}
		tokens := tokensOf(e, &log)
		if _, err := tokens.Token(t.Context()); err != nil {
			t.Fatal(err)
		}
		e.fault = errors.New("connection refused")
		for range 5 {
			time.Sleep(9*time.Minute/5 + time.Second) // the last one in the last minute, before the end
			if got, err := tokens.Token(t.Context()); got != "token-1" || err != nil {
				t.Errorf("got %s, %v, want the token that still lasts", got, err)
			}
		}
		if got := strings.Count(log.String(), "gave no token"); got != 1 {
			t.Errorf("logged %d times, want once: %s", got, &log)
		}
		time.Sleep(time.Minute)
		got, err := tokens.Token(t.Context())
		if got != "" || err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("got %q, %v, want the fault when the token has ended", got, err)
		}
		e.fault = nil
		if got, err := tokens.Token(t.Context()); err != nil || !strings.Contains(log.String(), "token endpoint answers again") {
			t.Errorf("got %s, %v, and the log %s, want a token, and a line that the endpoint answers again", got, err, &log)
		}
	})
}

// An endpoint that hangs holds no connection up while the last token lasts: a broker's connection has 3 s in all.
func TestLawAnEndpointThatHangsHoldsNoConnectionUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{life: 600, status: http.StatusOK}
		tokens := tokensOf(e, io.Discard)
		if _, err := tokens.Token(t.Context()); err != nil {
			t.Fatal(err)
		}
		e.delay = time.Hour
		time.Sleep(9*time.Minute + 30*time.Second)
		for _, patience := range []time.Duration{500 * time.Millisecond, 3 * time.Second} {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			begin := time.Now()
			got, err := tokens.Token(ctx)
			if took := time.Since(begin); got != "token-1" || err != nil || took > time.Second {
				t.Errorf("with %v to go: got %s, %v after %v, want the token that still lasts, within a second", patience, got, err, took)
			}
			cancel()
		}
		time.Sleep(30 * time.Second)
		if got, err := tokens.Token(t.Context()); got != "" || err == nil {
			t.Errorf("got %q, %v, want the fault when the token has ended", got, err)
		}
	})
}

// No error shows the secret, the endpoint's text, or the URL's parameters.
func TestAnErrorOfAnEndpointShowsNoSecret(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]*endpoint{
		"the token endpoint answered 401 invalid_client": {status: http.StatusUnauthorized},
		"ask the token endpoint: no route":               {fault: errors.New("no route")},
	} {
		_, err := tokensOf(e, io.Discard).Token(t.Context())
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A caller that waits for the request of another one can leave, and the request goes on
// for the others. It ends by itself.
func TestConnectionsShareARequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &endpoint{life: 600, status: http.StatusOK, delay: 5 * time.Second}
		tokens := tokensOf(e, io.Discard)
		hurried, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := tokens.Token(hurried); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want the end of its time", err)
			}
		})
		for range 10 {
			wg.Go(func() {
				if got, err := tokens.Token(t.Context()); got != "token-1" || err != nil {
					t.Errorf("got %s, %v, want token-1", got, err)
				}
			})
		}
		wg.Wait()
		if e.asked != 1 {
			t.Errorf("got %d requests, want 1", e.asked)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		_, err := tokensOf(&endpoint{delay: time.Hour}, io.Discard).Token(t.Context())
		if took := time.Since(begin); err == nil || took != 10*time.Second {
			t.Errorf("got %v after %v, want an error after 10 s", err, took)
		}
	})
}

// The request is that of RFC 6749, 4.4, with the configured values and the current
// secret. A redirect is not followed: it would carry the secret elsewhere.
func TestTheRequestToTheEndpoint(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer elsewhere.Close()
	type asked struct {
		user, password string
		form           url.Values
	}
	var got []asked
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		_ = r.ParseForm()
		got = append(got, asked{user, password, r.PostForm})
		if len(got) > 2 {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"t","token_type":"Bearer"}`)
	}))
	defer server.Close()
	secret := "first"
	tokens := credentials.NewTokens(credentials.Endpoint{
		URL: server.URL, ClientID: "node", Secret: func() string { return secret }, Scopes: []string{"a", "b"}, Audience: "kafka",
	})
	form := url.Values{"grant_type": {"client_credentials"}, "scope": {"a b"}, "audience": {"kafka"}}
	for _, secret = range []string{"first", "second"} {
		if token, err := tokens.Token(t.Context()); token != "t" || err != nil {
			t.Fatalf("got %s, %v", token, err)
		}
	}
	want := []asked{{"node", "first", form}, {"node", "second", form}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(asked{})); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	if _, err := tokens.Token(t.Context()); err == nil || !strings.Contains(err.Error(), "answered 307") {
		t.Errorf("got %v of a redirect, want an error", err)
	}
}
