package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"dispatcher/internal/auth"
)

const (
	headerTimeout  = 5 * time.Second
	requestTimeout = 10 * time.Second // reading the request and writing the answer, each
	idleTimeout    = time.Minute
	maxHeaderBytes = 16 << 10
	maxScrapes     = 4 // at once
	stopTimeout    = time.Second
)

// Options for [New].
type Options struct {
	Config

	// Checks say whether the node is ready. It is if none of them fails.
	Checks []Check
	// API serves /api/. [auth.From] gives it the caller where there are tokens. A handler that streams sets its write deadline by
	// [http.ResponseController], or it is cut off after ten seconds. Nil: there is none.
	API http.Handler
	// Page serves / and /static/, without a token: it must hold no data. Nil: there is none.
	Page http.Handler
	// Gatherer yields the metrics. Nil: there are none.
	Gatherer prometheus.Gatherer
	Logger   *slog.Logger // nil: nothing is logged
}

// Server answers questions about the node.
type Server struct {
	listener net.Listener // nil: nothing is served
	http     *http.Server
	warning  string // logged at start; empty: none
	log      *slog.Logger
}

// New opens the port, and Run closes it. A port that can't be opened is an error, and so is one that other hosts reach without a
// word about who may call. With an empty Listen there is no port, and Run only waits.
func New(o Options) (*Server, error) {
	s := &Server{log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler))}
	if o.Listen == "" {
		return s, nil
	}
	if err := under("admin", o.Validate()); err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(context.Background(), "tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("admin.listen: %w", err)
	}
	if err := s.serveOn(listener, o); err != nil {
		_ = listener.Close()
		return nil, err
	}
	return s, nil
}

// serveOn prepares all that Run needs.
func (s *Server) serveOn(listener net.Listener, o Options) error {
	own := loopback(listener.Addr())
	if !own {
		if err := under("admin", o.checkOpen()); err != nil {
			return err
		}
	}
	guard, err := o.guard(own, s.log)
	if err != nil {
		return err
	}
	certificate, err := o.certificate(s.log)
	if err != nil {
		return err
	}
	s.listener, s.warning = listener, warningOf(o.Config, own)
	s.http = &http.Server{
		Handler:           routes(o, guard, s.log),
		TLSConfig:         certificate,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      requestTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	return nil
}

// warningOf is what an operator should know about a server; empty: nothing.
func warningOf(c Config, own bool) string {
	switch {
	case own:
		return ""
	case len(c.Auth.Tokens) == 0:
		return "admin server asks for no token (admin.insecure): whoever reaches it may change the limits"
	case !c.TLS.Enabled():
		return "admin server has no TLS (admin.tls): whoever reads the network reads the tokens"
	}
	return ""
}

// Addr is where the server listens, as host:port with the real port; empty: nowhere.
func (s *Server) Addr() string {
	if s.listener == nil {
		return ""
	}
	return s.listener.Addr().String()
}

// Run serves until the context ends, and returns nil then. It is called once.
func (s *Server) Run(ctx context.Context) error {
	if s.listener == nil {
		<-ctx.Done()
		return nil
	}
	s.log.Info("admin server listens", "addr", s.Addr(), "tls", s.http.TLSConfig != nil)
	if s.warning != "" {
		s.log.Warn("admin server is open to others", "addr", s.Addr(), "cause", s.warning)
	}
	failed := make(chan error, 1) // one slot, so that the server's end waits for no reader
	go func() { failed <- s.serve() }()
	select {
	case err := <-failed:
		return fmt.Errorf("admin server: %w", err)
	case <-ctx.Done():
	}
	s.stop(ctx)
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("admin server: %w", err)
	}
	return nil
}

// stop lets requests finish, but not for long: a client must not keep the node from
// stopping.
func (s *Server) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		s.log.Debug("admin requests were cut off", "error", err)
		_ = s.http.Close()
	}
}

// serve accepts connections until the server is closed. With TLS they speak HTTP/2 or HTTP/1.1.
func (s *Server) serve() error {
	if s.http.TLSConfig != nil {
		return s.http.ServeTLS(s.listener, "", "")
	}
	return s.http.Serve(s.listener)
}

func routes(o Options, guard *auth.Guard, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.Handle("GET /readyz", ready(o.Checks, guard.Trusts))
	if o.API != nil {
		mux.Handle("/api/", guard.Handler(o.API))
	}
	if o.Page != nil {
		page := withPageHeaders(o.Page)
		mux.Handle("GET /{$}", page)
		mux.Handle("GET /static/", page)
	}
	if o.Gatherer != nil {
		mux.Handle("GET /metrics", guard.Handler(promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{
			ErrorLog:            slog.NewLogLogger(log.Handler(), slog.LevelWarn),
			MaxRequestsInFlight: maxScrapes,
		})))
	}
	return mux
}

// pagePolicy lets a page load its own files alone, call its own server alone, and be framed by nobody.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func withPageHeaders(page http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", pagePolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		page.ServeHTTP(w, r)
	})
}
