package sender

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options for [New]. Only Config.URL is required.
type Options struct {
	Config

	// OnRoundTrip is called with the round trip of each new connection's TCP handshake,
	// where the system measures it. It must not block. Nil: not called.
	OnRoundTrip func(time.Duration)
	// Dial opens the connections below TLS. Nil: a [net.Dialer].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// TLSConfig makes the settings of one handshake. Nil: from Config.TLS.
	TLSConfig  func() *tls.Config
	Logger     *slog.Logger          // nil: nothing is logged
	Registerer prometheus.Registerer // nil: metrics are not exported
}

// withDefaults fills in the zero values that can't be meant.
func (o Options) withDefaults() Options {
	o.Method = cmp.Or(o.Method, http.MethodPost)
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	o.DialTimeout = cmp.Or(o.DialTimeout, 3*time.Second)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, 30*time.Second)
	o.MaxResponseBytes = cmp.Or(o.MaxResponseBytes, 64<<10)
	o.CloudEvents = cmp.Or(o.CloudEvents, EventsAsIs)
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	if o.OnRoundTrip == nil {
		o.OnRoundTrip = func(time.Duration) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// openTLS reads the files of Config.TLS, unless the caller makes the settings.
func (o *Options) openTLS() error {
	if o.TLSConfig != nil {
		return nil
	}
	files, err := o.TLS.Open(o.Logger)
	if err != nil {
		return err
	}
	o.TLSConfig = func() *tls.Config { return new(tls.Config) }
	if files != nil {
		o.TLSConfig = files.Config
	}
	return nil
}
