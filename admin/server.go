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

	"dispatcher/internal/fault"
)

const (
	headerTimeout  = 5 * time.Second
	requestTimeout = 10 * time.Second // reading the request and writing the answer, each
	idleTimeout    = time.Minute
	maxHeaderBytes = 16 << 10
	maxScrapes     = 4 // at once
	stopTimeout    = time.Second
)

// Config is the section admin of the configuration.
type Config struct {
	// Listen is host:port; port 0 picks a free one. Empty: nothing is served.
	Listen string `yaml:"listen"`
}

// Validate returns the fault of the settings.
func (c Config) Validate() error {
	var l fault.List
	if c.Listen != "" {
		l.Address("listen", c.Listen, 0)
	}
	return l.Err()
}

// Options for [New].
type Options struct {
	Config

	// Checks say whether the node is ready. It is if none of them fails.
	Checks []Check
	// API serves /api/v1, on loopback alone: it may change the limits, and asks nobody who they are. Nil: there is none.
	API http.Handler
	// Gatherer yields the metrics. Nil: there are none.
	Gatherer prometheus.Gatherer
	Logger   *slog.Logger // nil: nothing is logged
}

// Server answers questions about the node.
type Server struct {
	listener net.Listener // nil: nothing is served
	http     *http.Server
	log      *slog.Logger
}

// New opens the port, and Run closes it. A port that can't be opened is an error. With an
// empty Listen there is no port, and Run only waits.
func New(o Options) (*Server, error) {
	s := &Server{log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler))}
	if o.Listen == "" {
		return s, nil
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(context.Background(), "tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("admin.listen: %w", err)
	}
	s.listener = listener
	if !loopback(listener.Addr()) {
		o.API = nil
	}
	s.http = &http.Server{
		Handler:           routes(o, s.log),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      requestTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	return s, nil
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
	s.log.Info("admin server listens", "addr", s.Addr())
	if !loopback(s.listener.Addr()) {
		s.log.Warn("admin server can be reached from other hosts without authentication; it serves no API there", "addr", s.Addr())
	}
	failed := make(chan error, 1) // one slot, so that the server's end waits for no reader
	go func() { failed <- s.http.Serve(s.listener) }()
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

func routes(o Options, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.Handle("GET /readyz", ready(o.Checks))
	if o.API != nil {
		mux.Handle("/api/", o.API)
	}
	if o.Gatherer != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{
			ErrorLog:            slog.NewLogLogger(log.Handler(), slog.LevelWarn),
			MaxRequestsInFlight: maxScrapes,
		}))
	}
	return mux
}

func loopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
