package provider_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"dispatcher/internal/provider"
)

func start(tb testing.TB, o provider.Options) *provider.Provider {
	tb.Helper()
	p := provider.New(o)
	if err := p.Up(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Error(err)
		}
	})
	return p
}

func dial(tb testing.TB, p *provider.Provider) (net.Conn, *bufio.Reader) {
	tb.Helper()
	c, err := new(net.Dialer).DialContext(tb.Context(), "tcp", p.Addr())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c, bufio.NewReader(c)
}

func request(key string) string {
	return "POST / HTTP/1.1\r\nHost: x\r\nIdempotency-Key: " + key + "\r\nContent-Length: 5\r\n\r\nhello"
}

// answer is the answer to one call; the zero value: none.
type answer struct {
	status int
	header http.Header
}

// call makes one call and returns its answer.
func call(tb testing.TB, c net.Conn, br *bufio.Reader, key string) answer {
	tb.Helper()
	if _, err := io.WriteString(c, request(key)); err != nil {
		return answer{}
	}
	return readAnswer(br)
}

func readAnswer(br *bufio.Reader) answer {
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		return answer{}
	}
	_ = resp.Body.Close()
	return answer{resp.StatusCode, resp.Header}
}

func TestArrivalsAreNoted(t *testing.T) {
	t.Parallel()
	p := start(t, provider.Options{})
	c, br := dial(t, p)
	before := p.Since(time.Now())
	for n := range 10_000 { // more than a chunk
		if resp := call(t, c, br, strconv.Itoa(n)); resp.status != 200 {
			t.Fatalf("call %d: got %+v", n, resp)
		}
	}
	arrivals := p.Arrivals()
	if len(arrivals) != 10_000 || p.Count() != 10_000 || p.Recent(time.Hour) != 10_000 {
		t.Fatalf("got %d arrivals, count %d, recent %d; want 10000", len(arrivals), p.Count(), p.Recent(time.Hour))
	}
	last := before
	for n, a := range arrivals {
		if a.Key != strconv.Itoa(n) || a.Status != 200 || a.At < last {
			t.Fatalf("arrival %d: got %+v, want key %d, 200, not before %v", n, a, n, last)
		}
		last = a.At
	}
	p.Reset()
	if p.Count() != 0 || len(p.Arrivals()) != 0 {
		t.Error("arrivals survive Reset")
	}
}

func TestCallsInOneWriteAreBothNoted(t *testing.T) {
	t.Parallel()
	p := start(t, provider.Options{})
	c, br := dial(t, p)
	if _, err := io.WriteString(c, request("a")+request("b")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := readAnswer(br); got.status != 200 {
			t.Fatalf("got %+v, want 200", got)
		}
	}
	if got := p.Arrivals(); len(got) != 2 || got[0].Key != "a" || got[1].Key != "b" {
		t.Errorf("got %+v, want a and b", got)
	}
}

func TestNonsenseIsNoted(t *testing.T) {
	t.Parallel()
	p := start(t, provider.Options{})
	c, br := dial(t, p)
	if _, err := io.WriteString(c, "nonsense\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := br.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want the connection closed", err)
	}
	if got := p.Arrivals(); len(got) != 1 || got[0].Status != http.StatusBadRequest {
		t.Errorf("got %+v, want one, 400", got)
	}
}

func TestBehaviour(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		behaviour provider.Behaviour
		want      []int // statuses; 0: no answer
	}{
		{"accepts", provider.Behaviour{}, []int{200, 200}},
		{"every third", provider.Behaviour{Status: 429, Every: 3}, []int{200, 200, 429, 200, 200, 429}},
		{"the first two", provider.Behaviour{Status: 503, First: 2}, []int{503, 503, 200, 200}},
		{"cut", provider.Behaviour{Fault: provider.Cut, Every: 2}, []int{200, 0}},
		{"no content", provider.Behaviour{Status: 204}, []int{204, 204}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, provider.Options{Behaviour: c.behaviour})
			conn, br := dial(t, p)
			var got []int
			for range c.want {
				got = append(got, call(t, conn, br, "a").status)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			var noted []int
			for _, a := range p.Arrivals() {
				noted = append(noted, a.Status)
			}
			if diff := cmp.Diff(c.want, noted); diff != "" {
				t.Errorf("noted (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRetryAfterIsRoundedUp(t *testing.T) {
	t.Parallel()
	p := start(t, provider.Options{Behaviour: provider.Behaviour{Status: 429, RetryAfter: 1100 * ms}})
	c, br := dial(t, p)
	if resp := call(t, c, br, "a"); resp.header.Get("Retry-After") != "2" {
		t.Errorf("got %+v, want Retry-After: 2", resp)
	}
}

// pipes is a listener on pipes, for bubbles.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p pipes) Close() error   { close(p.done); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func TestLatencyAndHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ln := pipes{make(chan net.Conn), make(chan struct{})}
		p := provider.New(provider.Options{
			Guard:     -1,
			Behaviour: provider.Behaviour{Latency: 50 * ms, Jitter: 10 * ms},
			Listen:    func(context.Context, string) (net.Listener, error) { return ln, nil },
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		client, server := net.Pipe()
		ln.conns <- server
		br := bufio.NewReader(client)
		for range 20 {
			begun := time.Now()
			if resp := call(t, client, br, "a"); resp.status != 200 || time.Since(begun) < 50*ms || time.Since(begun) > 60*ms {
				t.Errorf("got %+v after %v, want an answer after 50 to 60 ms", resp, time.Since(begun))
			}
		}
		p.Behave(provider.Behaviour{Fault: provider.Hang})
		time.AfterFunc(time.Hour, p.Down)
		begun := time.Now()
		if resp := call(t, client, br, "a"); resp.status != 0 || time.Since(begun) != time.Hour {
			t.Errorf("got %+v after %v, want nothing until it went down", resp, time.Since(begun))
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestDownAndUpOnTheSamePort(t *testing.T) {
	t.Parallel()
	p := start(t, provider.Options{})
	address := p.Addr()
	c, br := dial(t, p)
	call(t, c, br, "a")
	p.Down()
	p.Down()
	if resp := call(t, c, br, "b"); resp.status != 0 {
		t.Errorf("got %+v from a provider that is down", resp)
	}
	if c, err := new(net.Dialer).DialContext(t.Context(), "tcp", address); err == nil {
		_ = c.Close()
		t.Error("it still listens")
	}
	if err := p.Up(t.Context()); err != nil || p.Addr() != address || !p.IsUp() {
		t.Fatalf("got %v on %s, want it up on %s", err, p.Addr(), address)
	}
	if err := p.Up(t.Context()); err == nil {
		t.Error("up twice without an error")
	}
	c, br = dial(t, p)
	if resp := call(t, c, br, "c"); resp.status != 200 || p.Count() != 2 {
		t.Errorf("got %+v and %d arrivals, want an answer and 2", resp, p.Count())
	}
}

// A job whose call got no answer is not accepted, whatever answer was to be given.
func TestACallWithoutAnAnswerIsNotAccepted(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(p *provider.Provider, c net.Conn){
		"the provider goes down":   func(p *provider.Provider, _ net.Conn) { p.Down() },
		"the body breaks off":      func(_ *provider.Provider, c net.Conn) { _ = c.Close() },
		"the body is far too long": func(_ *provider.Provider, c net.Conn) { _, _ = c.Write(make([]byte, 5<<20)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, provider.Options{Behaviour: provider.Behaviour{Latency: time.Hour}})
			c, _ := dial(t, p)
			_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nIdempotency-Key: a\r\nContent-Length: 5242880\r\n\r\n")
			report := func() provider.Report {
				return p.Report(provider.Contract{Window: time.Second, Caps: []provider.CapFrom{{Cap: 1}}})
			}
			until := func(what string, so func() bool) {
				for deadline := time.Now().Add(time.Minute); !so(); time.Sleep(time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("not within a minute: %s; got %+v", what, p.Arrivals())
					}
				}
			}
			until("the call arrives", func() bool { return p.Count() == 1 })
			cut(p, c)
			until("it has no answer", func() bool { return p.Arrivals()[0].Status == 0 })
			if r := report(); r.Sent != 1 || r.Accepted != 0 {
				t.Errorf("got %d calls and %d accepted, want one and none", r.Sent, r.Accepted)
			}
		})
	}
}

func TestUpWhereSomethingListens(t *testing.T) {
	t.Parallel()
	first := start(t, provider.Options{})
	second := provider.New(provider.Options{Address: first.Addr()})
	if err := second.Run(t.Context()); err == nil || !strings.Contains(err.Error(), first.Addr()) {
		t.Errorf("got %v, want an error that names %s", err, first.Addr())
	}
}

func TestControl(t *testing.T) {
	t.Parallel()
	p := start(t, provider.Options{Guard: -1})
	srv := httptest.NewServer(provider.Control(p))
	t.Cleanup(srv.Close)
	ask := func(method, path, body string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{"POST", "/down", "", 200},
		{"POST", "/up", "", 200},
		{"POST", "/up", "", 409},
		{"GET", "/down", "", 405},
		{"POST", "/behave", `{"status":503,"every":2,"latency":"1ms"}`, 200},
		{"POST", "/behave", `{"status":17}`, 400},
		{"POST", "/behave", `{"latency":"5"}`, 400},
		{"POST", "/behave", `{"wait":"5s"}`, 400},
		{"GET", "/report?cap=1", "", 400},
		{"GET", "/report?cap=x&window=1s", "", 400},
		{"GET", "/report?cap=1&window=1s&change=now:5", "", 400},
		{"GET", "/report?cap=1&window=1s&change=20:5&change=10:5", "", 400},
	} {
		if got, text := ask(c.method, c.path, c.body); got != c.want {
			t.Errorf("%s %s %s: got %d %s, want %d", c.method, c.path, c.body, got, text, c.want)
		}
	}
	conn, br := dial(t, p)
	for _, key := range []string{"a", "b", "b"} {
		call(t, conn, br, key)
	}
	_, text := ask("GET", "/arrivals", "")
	arrivals, err := provider.ReadArrivals(strings.NewReader(text))
	if diff := cmp.Diff(p.Arrivals(), arrivals); diff != "" || err != nil {
		t.Errorf("arrivals, %v (-want +got):\n%s", err, diff)
	}
	_, text = ask("GET", "/report?cap=2&window=1h&change="+strconv.FormatInt(time.Now().Add(2*time.Hour).UnixNano(), 10)+":5", "")
	var r provider.Report
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	if r.Sent != 3 || r.Distinct != 2 || r.MaxInWindow != 3 || r.Kept || !r.Up || len(r.Over) != 1 {
		t.Errorf("got %+v, want 3 sent, 2 different, 3 in a window of 2", r)
	}
	if code, _ := ask("POST", "/reset", ""); code != 200 || p.Count() != 0 {
		t.Errorf("reset: got %d, %d arrivals left", code, p.Count())
	}
}

func TestABehaviourIsReadFromJSON(t *testing.T) {
	t.Parallel()
	want := provider.Behaviour{
		Latency: 20 * ms, Jitter: ms, Status: 429, RetryAfter: time.Second, Fault: provider.Hang, Every: 2, First: 3,
	}
	const text = `{"latency":"20ms","jitter":"1ms","status":429,"retry_after":"1s","fault":"hang","every":2,"first":3}`
	var got provider.Behaviour
	if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
		t.Errorf("%s: got %+v, %v; want %+v", text, got, err, want)
	}
}

func FuzzReadArrivals(f *testing.F) {
	f.Add([]byte("12 200 1 order-1\n13 0 0 \n"))
	f.Add([]byte("x 200 0 a\n"))
	f.Add([]byte("1 2 3\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := provider.ReadArrivals(bytes.NewReader(data))
		if err == nil && len(got) > bytes.Count(data, []byte("\n"))+1 {
			t.Errorf("got %d arrivals from %q", len(got), data)
		}
	})
}

func BenchmarkCall(b *testing.B) {
	p := start(b, provider.Options{})
	c, br := dial(b, p)
	b.ReportAllocs()
	for b.Loop() {
		if call(b, c, br, "order-17").status != 200 {
			b.Fatal("no answer")
		}
	}
}
