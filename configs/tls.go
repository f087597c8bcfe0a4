package configs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"

	"dispatcher/internal/tlsfiles"
)

// Build reads the files and makes the settings usable. It returns nil where TLS
// is not enabled. Errors name the file; they never hold what is in it.
func (t TLS) Build() (*tls.Config, error) {
	if !t.Enabled {
		return nil, nil
	}
	built := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		pem, err := readFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		built.RootCAs = x509.NewCertPool()
		if !built.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca_file: %s holds no certificate in PEM form", t.CAFile)
		}
	}
	if t.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("cert_file %s, key_file %s: %w", t.CertFile, t.KeyFile, err)
		}
		built.Certificates = []tls.Certificate{pair}
	}
	return built, nil
}

// Files is what a client that follows its files needs.
func (t TLS) Files(log *slog.Logger) tlsfiles.Files {
	return tlsfiles.Files{CA: t.CAFile, Cert: t.CertFile, Key: t.KeyFile, ServerName: t.ServerName, Log: log}
}

// check says what is wrong with the settings as such; files are read by Build.
func (t TLS) check() error {
	switch {
	case (t.CertFile == "") != (t.KeyFile == ""):
		return errors.New("cert_file and key_file: one without the other")
	case !t.Enabled && (t.CAFile != "" || t.CertFile != "" || t.ServerName != ""):
		return errors.New("enabled: false: but other TLS settings are made; set it to true or remove them")
	}
	return nil
}
