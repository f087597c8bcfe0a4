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
	"time"

	"dispatcher/internal/wait"
)

// SlowTLS makes TLS handshakes with the provider take as long as if it were far away.
type SlowTLS struct {
	CA     []byte // PEM of the authority that signs for 127.0.0.1
	config *tls.Config
}

// NewSlowTLS makes a certificate, good for a day. A handshake takes at least the time
// given.
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
		CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		config: &tls.Config{
			MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
			GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
				wait.For(hello.Context(), handshake)
				return nil, nil //nolint:nilnil // the same settings for all
			},
		},
	}, nil
}

// Listen is for [Options.Listen].
func (s *SlowTLS) Listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return tls.NewListener(l, s.config), nil
}
