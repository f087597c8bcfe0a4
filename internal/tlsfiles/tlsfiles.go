package tlsfiles

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
)

// maxFile bounds each file, in bytes. The authorities of a whole system take
// about a quarter of it.
const maxFile = 1 << 20

// Client makes settings for handshakes. Its methods may be called from any
// goroutine.
type Client struct {
	files Settings
	log   *slog.Logger

	mu     sync.Mutex // never held while a file is read
	good   content
	pool   *x509.CertPool   // nil: the system's
	pair   *tls.Certificate // nil: none
	warned bool             // the last read failed, and was logged
}

// content is the content of the files.
type content struct{ ca, cert, key string }

// Config reads the files and returns settings for the next handshake; the caller
// may change them. ServerName is empty unless it was configured.
func (c *Client) Config() *tls.Config {
	pool, pair := c.now()
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.files.ServerName, RootCAs: pool}
	if pair != nil {
		conf.Certificates = []tls.Certificate{*pair}
	}
	return conf
}

// now reads the files, and returns what is in use after it.
func (c *Client) now() (*x509.CertPool, *tls.Certificate) {
	read, err := c.files.read()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.take(read, err)
	return c.pool, c.pair
}

// take uses what was read, if it is good. The caller holds the lock.
func (c *Client) take(read content, err error) {
	changed := err == nil && read != c.good
	if changed {
		var pool *x509.CertPool
		var pair *tls.Certificate
		if pool, pair, err = c.files.parse(read); err == nil {
			c.good, c.pool, c.pair = read, pool, pair
		}
	}
	switch {
	case err != nil && !c.warned:
		c.log.Warn("TLS files could not be read again; the last good ones stay in use", "error", err)
	case changed && err == nil:
		c.log.Info("TLS files changed; new connections use them", "ca_file", c.files.CAFile, "cert_file", c.files.CertFile)
	case c.warned && err == nil:
		c.log.Info("TLS files can be read again")
	}
	c.warned = err != nil
}

// DialFunc opens a connection, as [net.Dialer.DialContext] does.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Dial returns a function that opens a connection with dial and makes the
// handshake on it; the context bounds both. The connections are of type [*tls.Conn].
func (c *Client) Dial(dial DialFunc) DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return Handshake(ctx, raw, c.Config(), address)
	}
}

// Handshake makes raw, which was dialled at address, a TLS connection; it closes
// raw where that fails. Without a ServerName in conf, which it may change, the
// server's certificate must hold the address's host.
func Handshake(ctx context.Context, raw net.Conn, conf *tls.Config, address string) (*tls.Conn, error) {
	if conf.ServerName == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			_ = raw.Close()
			return nil, fmt.Errorf("TLS needs a server name: %w", err)
		}
		conf.ServerName = host
	}
	conn := tls.Client(raw, conf)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	return conn, nil
}

func (s Settings) read() (content, error) {
	var all content
	for _, file := range []struct {
		setting, path string
		into          *string
	}{{"ca_file", s.CAFile, &all.ca}, {"cert_file", s.CertFile, &all.cert}, {"key_file", s.KeyFile, &all.key}} {
		if file.path == "" {
			continue
		}
		held, err := readFile(file.path)
		if err != nil {
			return content{}, fmt.Errorf("%s: %w", file.setting, err)
		}
		*file.into = string(held)
	}
	return all, nil
}

func (s Settings) parse(held content) (pool *x509.CertPool, pair *tls.Certificate, err error) {
	if s.CAFile != "" {
		pool = x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(held.ca)) {
			return nil, nil, fmt.Errorf("ca_file: %s holds no certificate in PEM form", s.CAFile)
		}
	}
	if s.CertFile != "" || s.KeyFile != "" {
		p, err := tls.X509KeyPair([]byte(held.cert), []byte(held.key))
		if err != nil {
			return nil, nil, fmt.Errorf("cert_file %s, key_file %s: %w", s.CertFile, s.KeyFile, err)
		}
		pair = &p
	}
	return pool, pair, nil
}

// readFile takes regular files only: a pipe or a device could block a handshake for
// ever.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return os.ReadFile(path)
}
