package admin_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dispatcher/admin"
	"dispatcher/internal/auth"
	"dispatcher/internal/tlsfiles"
)

const (
	viewersToken   = "the-token-of-the-viewer"
	operatorsToken = "the-token-of-the-operator"
)

// tokens are those of a viewer and an operator.
func tokens(t *testing.T) (s auth.Settings) {
	t.Helper()
	for role, token := range map[auth.Role]string{auth.Viewer: viewersToken, auth.Operator: operatorsToken} {
		file := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
		s.Tokens = append(s.Tokens, auth.Token{Name: string(role), Role: role, File: file})
	}
	return s
}

// text serves a text that names the caller.
func text(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, _ := auth.From(r.Context())
		_, _ = io.WriteString(w, name+" for "+caller.Name+".")
	})
}

// full are the options of a server that has everything, and is not ready.
func full(c admin.Config) admin.Options {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "calls_total", Help: "Calls."}))
	return admin.Options{Config: c, API: text("api"), Page: text("page"), Gatherer: registry, Checks: []admin.Check{
		{Name: "redis", Check: func(context.Context) (string, error) { return "asks 10.0.0.9", errors.New("10.0.0.9: refused") }},
	}}
}

// Each path asks each kind of caller for what it must.
func TestWhoMayWhat(t *testing.T) {
	t.Parallel()
	const long = `{"ready":false,"checks":[{"name":"redis","ok":false,"note":"asks 10.0.0.9","error":"10.0.0.9: refused"}]}` + "\n"
	const short = `{"ready":false,"checks":[{"name":"redis","ok":false}]}` + "\n"
	type answer struct {
		status int
		body   string
	}
	for name, c := range map[string]struct {
		config               admin.Config
		host                 string // another one than the server's own
		token                string
		readyz, metrics, api answer
		change               int
	}{
		"loopback":                 {config: admin.Config{Listen: "127.0.0.1:0"}, readyz: answer{503, long}, metrics: answer{200, "calls_total 0"}, api: answer{200, "api for ."}, change: 200},
		"loopback as another host": {config: admin.Config{Listen: "127.0.0.1:0"}, host: "elsewhere.example", readyz: answer{503, short}, metrics: answer{421, "loopback alone"}, api: answer{421, "loopback alone"}, change: 421},
		"insecure on loopback":     {config: admin.Config{Listen: "127.0.0.1:0", Insecure: true}, host: "elsewhere.example", readyz: answer{503, short}, metrics: answer{421, ""}, api: answer{421, ""}, change: 421},
		"insecure":                 {config: admin.Config{Listen: "0.0.0.0:0", Insecure: true}, host: "node-1", readyz: answer{503, short}, metrics: answer{200, "calls_total 0"}, api: answer{200, "api for ."}, change: 200},
		"no token":                 {config: admin.Config{Listen: "0.0.0.0:0", Auth: tokens(t)}, readyz: answer{503, short}, metrics: answer{401, "a token is needed"}, api: answer{401, "a token is needed"}, change: 401},
		"no token on loopback":     {config: admin.Config{Listen: "127.0.0.1:0", Auth: tokens(t)}, readyz: answer{503, short}, metrics: answer{401, ""}, api: answer{401, ""}, change: 401},
		"wrong token":              {config: admin.Config{Listen: "0.0.0.0:0", Auth: tokens(t)}, token: "another-token-of-the-viewer", readyz: answer{503, short}, metrics: answer{401, "not known"}, api: answer{401, "not known"}, change: 401},
		"viewer":                   {config: admin.Config{Listen: "0.0.0.0:0", Auth: tokens(t)}, host: "node-1", token: viewersToken, readyz: answer{503, long}, metrics: answer{200, "calls_total 0"}, api: answer{200, "api for viewer."}, change: 403},
		"operator":                 {config: admin.Config{Listen: "0.0.0.0:0", Auth: tokens(t)}, host: "node-1", token: operatorsToken, readyz: answer{503, long}, metrics: answer{200, "calls_total 0"}, api: answer{200, "api for operator."}, change: 200},
		"operator on loopback":     {config: admin.Config{Listen: "127.0.0.1:0", Auth: tokens(t)}, host: "node-1", token: operatorsToken, readyz: answer{503, long}, metrics: answer{200, ""}, api: answer{200, "api for operator."}, change: 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base, _ := serve(t, full(c.config))
			_, port, _ := net.SplitHostPort(strings.TrimPrefix(base, "http://"))
			ask := func(method, path string) (int, string, http.Header) {
				r, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:"+port+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Host = c.host
				if c.token != "" {
					r.Header.Set("Authorization", "Bearer "+c.token)
				}
				return do(t, r)
			}
			for path, want := range map[string]answer{
				"/livez": {200, "ok\n"}, "/readyz": c.readyz, "/metrics": c.metrics, "/api/v1/limits": c.api, "/": {200, "page for ."},
				"/static/page.js": {200, "page for ."}, "/other": {404, ""}, "/apis": {404, ""},
			} {
				status, body, header := ask(http.MethodGet, path)
				if status != want.status || !strings.Contains(body, want.body) {
					t.Errorf("%s: got %d %s, want %d %s", path, status, body, want.status, want.body)
				}
				if path == "/readyz" && body != want.body {
					t.Errorf("got %s, want %s", body, want.body)
				}
				if policy := header.Get("Content-Security-Policy"); (policy != "") != (path == "/" || path == "/static/page.js") {
					t.Errorf("%s: got the policy %q", path, policy)
				}
			}
			if status, body, _ := ask(http.MethodPost, "/api/v1/limits/provider/pause"); status != c.change {
				t.Errorf("got %d %s for a change, want %d", status, body, c.change)
			}
			if status, _, _ := ask(http.MethodPost, "/static/page.js"); status != http.StatusMethodNotAllowed {
				t.Errorf("got %d for a change of the page, want 405", status)
			}
		})
	}
}

func do(t *testing.T, r *http.Request) (int, string, http.Header) {
	t.Helper()
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body), resp.Header
}

func TestThePageIsStrict(t *testing.T) {
	t.Parallel()
	base, _ := serve(t, full(admin.Config{Listen: "127.0.0.1:0"}))
	_, _, header := call(t, http.MethodGet, base+"/")
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
			"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
	} {
		if got := header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// Off loopback the server wants to know who may call: config check finds it where the address says so, else the start does.
func TestOffLoopbackNeedsAWord(t *testing.T) {
	t.Parallel()
	for listen, literal := range map[string]bool{
		"0.0.0.0:0": true, ":0": true, "[::]:0": true, "10.0.0.7:8080": true, "[fe80::1%lo]:0": true, "[::ffff:10.0.0.7]:0": true,
		"127.0.0.1:0": false, "127.9.9.9:0": false, "localhost:0": false, "[::1]:0": false, "[::ffff:127.0.0.1]:0": false, "node-1:0": false, "": false,
	} {
		for _, c := range []admin.Config{{Listen: listen}, {Listen: listen, Insecure: true}, {Listen: listen, Auth: tokens(t)}} {
			err := c.Validate()
			if refused := literal && !c.Insecure && len(c.Auth.Tokens) == 0; (err != nil) != refused {
				t.Errorf("%+v: got %v, want it refused: %t", c, err, refused)
			}
			if err != nil {
				for _, want := range []string{`listen: "` + listen + `": `, "admin.auth.tokens", "admin.insecure: true", "127.0.0.1"} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("got %v, want %s in it", err, want)
					}
				}
				if _, err := admin.New(admin.Options{Config: c}); err == nil || !strings.Contains(err.Error(), "admin.listen: ") {
					t.Errorf("%s: got %v, want no start", listen, err)
				}
			}
		}
	}
	// The name of a host says nothing; where it leads does.
	far := elsewhere{}
	if _, err := admin.On(far, admin.Options{Config: admin.Config{Listen: "node-1:80"}}); err == nil || !strings.Contains(err.Error(), `admin.listen: "node-1:80": other hosts reach it`) {
		t.Errorf("got %v, want no start", err)
	}
	if _, err := admin.On(far, admin.Options{Config: admin.Config{Listen: "node-1:80", Insecure: true}}); err != nil {
		t.Error(err)
	}
	both := admin.Config{Listen: "127.0.0.1:0", Insecure: true, Auth: tokens(t)}
	if err := both.Validate(); err == nil || !strings.Contains(err.Error(), "insecure: true: can't be together with auth.tokens") {
		t.Errorf("got %v, want one of insecure and tokens", err)
	}
}

// elsewhere is a listener off loopback that is never used.
type elsewhere struct{ net.Listener }

func (elsewhere) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 80} }

// What the files lack is found by config check and at start, with the whole path of the setting.
func TestBadFilesAreNamed(t *testing.T) {
	t.Parallel()
	c := admin.Config{Listen: "127.0.0.1:0", Auth: tokens(t), TLS: tlsfiles.ServerSettings{CertFile: "/no/cert.pem", KeyFile: "/no/key.pem"}}
	_ = os.Remove(c.Auth.Tokens[1].File)
	err := c.CheckFiles()
	for _, want := range []string{`admin.auth.tokens.1.file: "` + c.Auth.Tokens[1].File, "admin.tls.cert_file: stat /no/cert.pem"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s in it", err, want)
		}
	}
	if _, err := admin.New(admin.Options{Config: c}); err == nil || !strings.Contains(err.Error(), "admin.auth.tokens.1.file") {
		t.Errorf("got %v, want no start", err)
	}
	c.Auth = auth.Settings{}
	if _, err := admin.New(admin.Options{Config: c}); err == nil || !strings.Contains(err.Error(), "admin.tls.cert_file") {
		t.Errorf("got %v, want no start", err)
	}
	c.TLS.KeyFile = ""
	if err := c.CheckFiles(); err != nil {
		t.Errorf("got %v, want the fault of Validate left out", err)
	}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), `tls.key_file: "": is needed with cert_file`) {
		t.Errorf("got %v, want the key named", err)
	}
	if err := (admin.Config{TLS: tlsfiles.ServerSettings{CertFile: "/no", KeyFile: "/no"}}).CheckFiles(); err != nil {
		t.Errorf("got %v where nothing is served", err)
	}
}

// certify writes a certificate of a name, and returns those that trust it.
func certify(t *testing.T, s tlsfiles.ServerSettings, name string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	raw, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{s.CertFile: {Type: "CERTIFICATE", Bytes: raw}, s.KeyFile: {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	own, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(own)
	return pool
}

// With a certificate the server speaks HTTPS alone, by HTTP/2. The next connection uses a rotated one.
func TestHTTPS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := tlsfiles.ServerSettings{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	pool := certify(t, files, "one.test")
	base, _ := serve(t, full(admin.Config{Listen: "127.0.0.1:0", TLS: files, Auth: tokens(t)}))
	base = "https" + strings.TrimPrefix(base, "http")
	ask := func(pool *x509.CertPool, latest uint16) (version int, certificate string, err error) {
		transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool, MaxVersion: latest}}
		defer transport.CloseIdleConnections()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/api/v1/limits", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+viewersToken)
		resp, err := (&http.Client{Transport: transport}).Do(r)
		if err != nil {
			return 0, "", err
		}
		defer func() { _ = resp.Body.Close() }()
		if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "api for viewer." {
			t.Errorf("got %s, %v", body, err)
		}
		return resp.ProtoMajor, resp.TLS.PeerCertificates[0].DNSNames[0], nil
	}
	if version, name, err := ask(pool, 0); version != 2 || name != "one.test" || err != nil {
		t.Errorf("got HTTP/%d by %s, %v, want HTTP/2 by one.test", version, name, err)
	}
	if _, _, err := ask(pool, tls.VersionTLS12); err != nil {
		t.Errorf("TLS 1.2: %v", err)
	}
	if _, _, err := ask(pool, tls.VersionTLS11); err == nil {
		t.Error("TLS 1.1 was accepted")
	}
	if status, _, _ := call(t, http.MethodGet, "http"+strings.TrimPrefix(base, "https")+"/livez"); status != http.StatusBadRequest {
		t.Errorf("got %d for plain HTTP, want 400", status)
	}
	next := certify(t, files, "two.test")
	if _, name, err := ask(next, 0); name != "two.test" || err != nil {
		t.Errorf("after the rotation: got %s, %v, want two.test", name, err)
	}
	_ = os.Remove(files.KeyFile)
	if _, name, err := ask(next, 0); name != "two.test" || err != nil {
		t.Errorf("without its key file: got %s, %v, want the last good certificate", name, err)
	}
}

// pipes is a listener on loopback without a network, which a bubble can see into.
type pipes struct {
	conns chan net.Conn
	ended chan struct{}
	once  *sync.Once
}

func newPipes() pipes { return pipes{make(chan net.Conn), make(chan struct{}), new(sync.Once)} }

func (p pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}
func (p pipes) Close() error { p.once.Do(func() { close(p.ended) }); return nil }
func (pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

// client is one that calls by pipes, trusting the certificates of a pool.
func (p pipes) client(pool *x509.CertPool) *http.Client {
	dial := func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		p.conns <- far
		return near, nil
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
}

// A handler that streams goes on beyond the timeouts of ten seconds if it sets its deadline, behind the guard too, and by HTTP/2 as
// well. Each of its lines arrives at once. One that sets none is cut off.
func TestAStreamIsNotCutOff(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := tlsfiles.ServerSettings{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	who := tokens(t)
	for _, row := range []struct{ sets, https bool }{{true, false}, {false, false}, {true, true}, {false, true}} {
		synctest.Test(t, func(t *testing.T) {
			const lines = 30
			o := admin.Options{Config: admin.Config{Listen: "127.0.0.1:80", Auth: who}}
			o.API = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				control := http.NewResponseController(w)
				for range lines {
					if row.sets {
						if err := control.SetWriteDeadline(time.Now().Add(5 * time.Second)); err != nil {
							t.Errorf("the deadline can't be set: %v", err)
						}
					}
					_, err := io.WriteString(w, time.Now().Format(time.RFC3339Nano)+"\n")
					if err = errors.Join(err, control.Flush(), r.Context().Err()); err != nil {
						if row.sets {
							t.Errorf("the stream was cut off: %v", err)
						}
						return
					}
					time.Sleep(time.Second)
				}
			})
			p, scheme, version := newPipes(), "http", 1
			var pool *x509.CertPool
			if row.https {
				pool, scheme, version = certify(t, files, "one.test"), "https", 2
				o.TLS = files
			}
			s, err := admin.On(p, o)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			client := p.client(pool)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, scheme+"://127.0.0.1/api/v1/events", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+viewersToken)
			resp, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			got := 0
			for scanner := bufio.NewScanner(resp.Body); scanner.Scan(); got++ {
				if now := time.Now().Format(time.RFC3339Nano); scanner.Text() != now {
					t.Errorf("line %d: got that of %s at %s", got, scanner.Text(), now)
				}
			}
			if (got == lines) != row.sets || resp.ProtoMajor != version {
				t.Errorf("%+v: got %d lines of %d, by HTTP/%d", row, got, lines, resp.ProtoMajor)
			}
			_ = resp.Body.Close()
			client.CloseIdleConnections()
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			time.Sleep(2 * time.Second) // a handler of a stream that was cut off may sleep yet
		})
	}
}
