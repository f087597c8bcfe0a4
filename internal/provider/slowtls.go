package provider

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"sync"
	"time"
)

// SlowTLS makes TLS handshakes with the provider take as long as if it were far away.
type SlowTLS struct {
	CA        []byte        // PEM of the authority that signs for 127.0.0.1
	handshake time.Duration // at least
	config    *tls.Config
}

// NewSlowTLS makes a certificate, good for a day.
func NewSlowTLS(handshake time.Duration) (*SlowTLS, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("provider: make a key: %w", err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("provider: make a certificate: %w", err)
	}
	return &SlowTLS{
		CA:        pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		handshake: handshake,
		config:    &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
	}, nil
}

// Listen is for [Options.Listen].
func (s *SlowTLS) Listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return tls.NewListener(slowListener{l, s.handshake}, s.config), nil
}

type slowListener struct {
	net.Listener
	wait time.Duration
}

func (l slowListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &slowConn{Conn: c, wait: l.wait}, nil
}

// slowConn delays its first read, of the client's first message.
type slowConn struct {
	net.Conn
	wait  time.Duration
	first sync.Once
}

func (c *slowConn) Read(p []byte) (int, error) {
	c.first.Do(func() {
		timer := time.NewTimer(c.wait)
		defer timer.Stop()
		<-timer.C
	})
	return c.Conn.Read(p)
}
