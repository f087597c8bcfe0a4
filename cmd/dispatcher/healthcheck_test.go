package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"dispatcher/admin"
	"dispatcher/cmd/dispatcher/internal/clitest"
	"dispatcher/internal/tlsfiles"
)

// adminServer serves until the test ends, and returns its address.
func adminServer(t *testing.T, o admin.Options) string {
	t.Helper()
	server, err := admin.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return server.Addr()
}

// certificate writes a certificate that no authority has signed, for a name that is not that of loopback.
func certificate(t *testing.T) tlsfiles.ServerSettings {
	t.Helper()
	dir := t.TempDir()
	files := tlsfiles.ServerSettings{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"node.test"}, NotAfter: time.Now().Add(time.Hour)}
	raw, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{files.CertFile: {Type: "CERTIFICATE", Bytes: raw}, files.KeyFile: {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func check(t *testing.T, args ...string) clitest.Outcome {
	t.Helper()
	return clitest.Run(t.Context(), newHealthCheckCommand, "", nil, append([]string{"healthcheck"}, args...)...)
}

func TestHealthCheck(t *testing.T) {
	t.Parallel()
	well := admin.Check{Name: "kafka", Check: func(context.Context) (string, error) { return "", nil }}
	ill := admin.Check{Name: "redis", Check: func(context.Context) (string, error) { return "", errors.New("connection refused") }}
	loopback := admin.Config{Listen: "127.0.0.1:0"}

	ready := "--set=admin.listen=" + adminServer(t, admin.Options{Config: loopback, Checks: []admin.Check{well}})
	check(t, ready).MustPrint(t, "ok\n")
	check(t, ready, "--ready").MustPrint(t, "ok\n")
	// What a node needs besides does not concern the check.
	check(t, ready, "--set=redis.password=${file:/gone}", "--set=limits.0.cap=0").MustPrint(t, "ok\n")

	sick := "--set=admin.listen=" + adminServer(t, admin.Options{Config: loopback, Checks: []admin.Check{well, ill}})
	check(t, sick).MustPrint(t, "ok\n")
	check(t, sick, "--ready").MustFail(t, "/readyz: status 503, not ready: redis (connection refused)")

	for listen, want := range map[string]string{
		"":            "admin.listen is empty: the node has no admin server to ask",
		"127.0.0.1:0": `admin.listen: "127.0.0.1:0": the node picks a free port: set one that is known`,
		"127.0.0.1:1": "healthcheck: no answer: ",
		"nowhere":     "admin.listen: address nowhere: missing port in address",
	} {
		check(t, "--set=admin.listen="+listen).MustFail(t, want)
	}
	check(t, ready, "--timeout=0s").MustFail(t, "deadline exceeded")
}

// A server of all networks is asked on loopback.
func TestHealthCheckAsksLoopback(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{
		"0.0.0.0:80": "127.0.0.1:80", ":80": "127.0.0.1:80", "[::]:80": "[::1]:80", "10.0.0.1:80": "10.0.0.1:80", "[::1]:80": "[::1]:80", "host:80": "host:80",
	} {
		if got, err := healthHost(listen); got != want || err != nil {
			t.Errorf("%s: got %s, %v, want %s", listen, got, err, want)
		}
	}
}

// With TLS the server must have the certificate of the node's files, whatever name that holds.
func TestHealthCheckByTLS(t *testing.T) {
	t.Parallel()
	own, other := certificate(t), certificate(t)
	listen := "--set=admin.listen=" + adminServer(t, admin.Options{Config: admin.Config{Listen: "127.0.0.1:0", TLS: own}})
	with := func(files tlsfiles.ServerSettings) clitest.Outcome {
		return check(t, listen, "--ready", "--set=admin.tls.cert_file="+files.CertFile, "--set=admin.tls.key_file="+files.KeyFile)
	}
	with(own).MustPrint(t, "ok\n")
	with(other).MustFail(t, "the server has another certificate than admin.tls.cert_file")
	with(tlsfiles.ServerSettings{CertFile: "/gone", KeyFile: "/gone"}).MustFail(t, "admin.tls: open /gone")
	check(t, listen).MustFail(t, "status 400")
}
