package tlsfiles_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dispatcher/internal/tlsfiles"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	raw, key := a.issue(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	var err error
	if a.cert, err = x509.ParseCertificate(raw); err != nil {
		t.Fatal(err)
	}
	a.key = key
	return a
}

// issue makes a certificate; an authority without one signs its own.
func (a *authority) issue(t *testing.T, c *x509.Certificate) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber, c.Subject.CommonName = serial, c.Subject.CommonName+" "+serial.String()
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	signer, parent := key, c
	if a.cert != nil {
		signer, parent = a.key, a.cert
	}
	raw, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	return raw, key
}

func (a *authority) server(t *testing.T) tls.Certificate {
	t.Helper()
	raw, key := a.issue(t, &x509.Certificate{DNSNames: []string{"provider.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
}

func write(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// pair writes a client's certificate and key, and returns what the server is to see.
func (a *authority) pair(t *testing.T, f tlsfiles.Settings, name string) {
	t.Helper()
	raw, key := a.issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, f.CertFile, "CERTIFICATE", raw)
	write(t, f.KeyFile, "PRIVATE KEY", der)
}

func (a *authority) trust(t *testing.T, f tlsfiles.Settings) {
	t.Helper()
	write(t, f.CAFile, "CERTIFICATE", a.cert.Raw)
}

func files(t *testing.T) tlsfiles.Settings {
	t.Helper()
	dir := t.TempDir()
	return tlsfiles.Settings{
		Enabled: true, CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem"),
	}
}

func logTo(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// meet has a client dial a server at address, and returns the name in the
// client's certificate.
func meet(t *testing.T, c *tlsfiles.Client, server tls.Certificate, address string) (name string, err error) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	seen := make(chan string, 1)
	go func() {
		defer close(seen)
		far, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = far.Close() }()
		conn := tls.Server(far, &tls.Config{Certificates: []tls.Certificate{server}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12})
		if conn.HandshakeContext(t.Context()) == nil {
			for _, peer := range conn.ConnectionState().PeerCertificates {
				name, _, _ := strings.Cut(peer.Subject.CommonName, " ")
				seen <- name
			}
		}
	}()
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, listener.Addr().String())
	}
	conn, err := c.Dial(dial)(t.Context(), "tcp", address)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	return <-seen, nil
}

// A client follows its files from one handshake to the next: the certificate it
// shows, and the authorities it trusts.
func TestEachHandshakeReadsTheFiles(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	f := files(t)
	first, second := newAuthority(t), newAuthority(t)
	first.trust(t, f)
	first.pair(t, f, "one")
	c, err := f.Open(logTo(&log))
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"127.0.0.1:443", "provider.test:443"} {
		if name, err := meet(t, c, first.server(t), address); name != "one" || err != nil {
			t.Errorf("%s: got %q and %v, want the certificate one", address, name, err)
		}
		if _, err := meet(t, c, second.server(t), address); err == nil {
			t.Errorf("%s: an authority that is not trusted was", address)
		}
	}
	second.trust(t, f)
	first.pair(t, f, "two")
	if name, err := meet(t, c, second.server(t), "127.0.0.1:443"); name != "two" || err != nil {
		t.Errorf("after the rotation: got %q and %v, want the certificate two", name, err)
	}
	if _, err := meet(t, c, first.server(t), "127.0.0.1:443"); err == nil {
		t.Error("the authority that was taken out is still trusted")
	}
	if n := strings.Count(log.String(), "TLS files changed"); n != 1 {
		t.Errorf("the change was logged %d times, want once:\n%s", n, &log)
	}
}

// Verification stays whole: another host, and another address, are refused.
func TestTheServerMustBeTheOneThatWasDialled(t *testing.T) {
	t.Parallel()
	f := files(t)
	a := newAuthority(t)
	a.trust(t, f)
	a.pair(t, f, "client")
	c, err := f.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"other.test:443", "127.0.0.2:443", "no-port"} {
		if _, err := meet(t, c, a.server(t), address); err == nil {
			t.Errorf("%s: got a connection, want it refused", address)
		}
	}
	f.ServerName = "provider.test"
	if c, err = f.Open(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := meet(t, c, a.server(t), "10.0.0.1:443"); err != nil {
		t.Errorf("with the server's name: %v", err)
	}
}

// A read that fails keeps the last good files, and is logged once until they can
// be read again.
func TestABadReadKeepsTheLastGoodFiles(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*testing.T, tlsfiles.Settings){
		"gone":           func(_ *testing.T, f tlsfiles.Settings) { _ = os.Remove(f.KeyFile) },
		"half of a pair": func(t *testing.T, f tlsfiles.Settings) { t.Helper(); halfPair(t, f) },
		"no PEM":         func(_ *testing.T, f tlsfiles.Settings) { _ = os.WriteFile(f.CAFile, []byte("x"), 0o600) },
		"too large":      func(_ *testing.T, f tlsfiles.Settings) { _ = os.Truncate(f.CAFile, 1<<20+1) },
		"a directory":    func(_ *testing.T, f tlsfiles.Settings) { _ = os.Remove(f.CAFile); _ = os.Mkdir(f.CAFile, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			f := files(t)
			a := newAuthority(t)
			a.trust(t, f)
			a.pair(t, f, "good")
			c, err := f.Open(logTo(&log))
			if err != nil {
				t.Fatal(err)
			}
			spoil(t, f)
			if _, err := f.Open(logTo(&log)); err == nil {
				t.Error("a start with such files is no error")
			}
			for range 3 {
				if name, err := meet(t, c, a.server(t), "127.0.0.1:443"); name != "good" || err != nil {
					t.Errorf("got %q and %v, want the last good certificate", name, err)
				}
			}
			if n := strings.Count(log.String(), "could not be read again"); n != 1 {
				t.Errorf("it was logged %d times, want once:\n%s", n, &log)
			}
			_ = os.Remove(f.CAFile)
			a.trust(t, f)
			a.pair(t, f, "new")
			if name, err := meet(t, c, a.server(t), "127.0.0.1:443"); name != "new" || err != nil {
				t.Errorf("when they are good again: got %q and %v, want the new certificate", name, err)
			}
		})
	}
}

func halfPair(t *testing.T, f tlsfiles.Settings) {
	t.Helper()
	key, err := os.ReadFile(f.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	newAuthority(t).pair(t, f, "half")
	if err := os.WriteFile(f.KeyFile, key, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Each setting that can't be used is named, at the check or when the files are read.
func TestErrorsNameTheSetting(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		config tlsfiles.Settings
		want   string
	}{
		{tlsfiles.Settings{CAFile: "ca.pem"}, "enabled: false: but other TLS settings are made"},
		{tlsfiles.Settings{ServerName: "a"}, "enabled: false: but other TLS settings are made"},
		{tlsfiles.Settings{Enabled: true, KeyFile: "key.pem"}, `cert_file: "": is needed with key_file`},
		{tlsfiles.Settings{Enabled: true, CertFile: "cert.pem"}, `key_file: "": is needed with cert_file`},
	} {
		if err := row.config.Validate(); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%+v: got %v, want %s", row.config, err, row.want)
		}
	}
	for want, config := range map[string]tlsfiles.Settings{
		"ca_file":   {Enabled: true, CAFile: "tlsfiles_test.go"},
		"stat none": {Enabled: true, CAFile: "none"},
		"cert_file": {Enabled: true, CertFile: "none", KeyFile: "none"},
	} {
		if _, err := config.Open(nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want an error that names %s", config, err, want)
		}
	}
	if c, err := (tlsfiles.Settings{}).Open(nil); c != nil || err != nil {
		t.Errorf("not enabled: got %v, %v, want no client and no error", c, err)
	}
}

// Without files the system's authorities are trusted and no certificate is shown.
func TestNoFilesAreTheSystems(t *testing.T) {
	t.Parallel()
	c, err := tlsfiles.Settings{Enabled: true, ServerName: "a"}.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	if conf := c.Config(); conf.ServerName != "a" || conf.RootCAs != nil || len(conf.Certificates) != 0 || conf.InsecureSkipVerify || conf.MinVersion != tls.VersionTLS12 {
		t.Errorf("got %+v, want the system's settings from TLS 1.2 on", conf)
	}
}

// A server shows the certificate that its files hold at the handshake, and the last good one while they hold none.
func TestAServerFollowsItsFiles(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	f := files(t)
	s := tlsfiles.ServerSettings{CertFile: f.CertFile, KeyFile: f.KeyFile}
	a := newAuthority(t)
	if _, err := s.Open(nil); err == nil || !strings.Contains(err.Error(), "cert_file: stat") {
		t.Errorf("without files: got %v, want the setting named", err)
	}
	a.pair(t, f, "one")
	conf, err := s.Open(logTo(&log))
	if err != nil {
		t.Fatal(err)
	}
	shown := func() string {
		t.Helper()
		pair, err := conf.GetCertificate(&tls.ClientHelloInfo{})
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(pair.Leaf.Subject.CommonName, " ")
		return name
	}
	if name := shown(); name != "one" {
		t.Errorf("got the certificate %s, want one", name)
	}
	if a.pair(t, f, "two"); shown() != "two" {
		t.Errorf("after the rotation: got the certificate %s, want two", shown())
	}
	halfPair(t, f)
	for range 3 {
		if name := shown(); name != "two" || strings.Count(log.String(), "could not be read again") != 1 {
			t.Errorf("got %s, want the last good certificate, and one line in the log:\n%s", name, &log)
		}
	}
	if conf.MinVersion != tls.VersionTLS12 {
		t.Errorf("got the version %x, want TLS 1.2 at least", conf.MinVersion)
	}
	if conf, err := (tlsfiles.ServerSettings{}).Open(nil); conf != nil || err != nil {
		t.Errorf("without settings: got %v, %v, want no TLS", conf, err)
	}
	for want, half := range map[string]tlsfiles.ServerSettings{"key_file": {CertFile: "a"}, "cert_file": {KeyFile: "a"}} {
		if err := half.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) || !half.Enabled() {
			t.Errorf("%+v: got %v, want %s named", half, err, want)
		}
	}
}
