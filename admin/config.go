package admin

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"

	"dispatcher/internal/auth"
	"dispatcher/internal/fault"
	"dispatcher/internal/tlsfiles"
)

// Config is the section admin of the configuration.
type Config struct {
	// Listen is host:port; port 0 picks a free one. Empty: nothing is served.
	Listen string `yaml:"listen"`
	// Insecure lets whoever reaches the port do all, off loopback too.
	Insecure bool                    `yaml:"insecure"`
	Auth     auth.Settings           `yaml:"auth"`
	TLS      tlsfiles.ServerSettings `yaml:"tls"`
}

// Validate returns the faults of the settings as such. It takes the name of a host for loopback: [New] sees where that leads.
func (c Config) Validate() error {
	var l fault.List
	if c.Listen != "" {
		l.Address("listen", c.Listen, 0)
	}
	if !mayBeLoopback(c.Listen) {
		l.Under("", c.checkOpen())
	}
	l.Refuse(c.Insecure && len(c.Auth.Tokens) > 0, "insecure", c.Insecure, "can't be together with auth.tokens: leave one of them out")
	l.Under("auth", c.Auth.Validate())
	l.Under("tls", c.TLS.Validate())
	return l.Err()
}

// checkOpen refuses an address that other hosts reach, where nothing says who may call.
func (c Config) checkOpen() error {
	if c.Insecure || len(c.Auth.Tokens) > 0 {
		return nil
	}
	return fault.New("listen", c.Listen,
		"other hosts reach it: name tokens in admin.auth.tokens, or listen on 127.0.0.1; admin.insecure: true lets whoever reaches it change the limits")
}

// mayBeLoopback tells whether an address can be one of loopback. An address without a host is that of all networks.
func mayBeLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil { // which is a fault of its own
		return true
	}
	ip, err := netip.ParseAddr(host)
	return host != "" && (err != nil || ip.Unmap().IsLoopback())
}

func loopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// CheckFiles reads the files of the settings, as [New] does. It leaves out settings that [Config.Validate] refuses. Where nothing
// is served, it reads no file.
func (c Config) CheckFiles() (err error) {
	if c.Listen != "" && c.Auth.Validate() == nil {
		_, err = c.guard(false, nil)
	}
	if c.Listen != "" && c.TLS.Validate() == nil {
		_, unread := c.certificate(nil)
		err = errors.Join(err, unread)
	}
	return err
}

// guard reads the tokens.
func (c Config) guard(loopback bool, log *slog.Logger) (*auth.Guard, error) {
	guard, err := auth.New(auth.Options{Settings: c.Auth, Loopback: loopback, Logger: log})
	return guard, under("admin.auth", err)
}

// certificate reads the certificate; nil: the server has no TLS.
func (c Config) certificate(log *slog.Logger) (*tls.Config, error) {
	certificate, err := c.TLS.Open(log)
	if err != nil {
		return nil, fmt.Errorf("admin.tls.%w", err)
	}
	return certificate, nil
}

func under(path string, err error) error {
	var l fault.List
	l.Under(path, err)
	return l.Err()
}
