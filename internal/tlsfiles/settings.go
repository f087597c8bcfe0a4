package tlsfiles

import (
	"cmp"
	"crypto/tls"
	"log/slog"

	"dispatcher/internal/fault"
)

// Settings is a section tls of the configuration. With no file named, the
// client trusts the system's authorities and shows no certificate.
type Settings struct {
	Enabled    bool   `yaml:"enabled"`
	CAFile     string `yaml:"ca_file"`   // PEM, the authorities; empty: the system's
	CertFile   string `yaml:"cert_file"` // PEM, the client's certificate; empty: none
	KeyFile    string `yaml:"key_file"`  // PEM, the key of that certificate
	ServerName string `yaml:"server_name"`
}

// Validate checks the settings as such; [Settings.Open] reads the files.
func (s Settings) Validate() error {
	var l fault.List
	checkPair(&l, s.CertFile, s.KeyFile)
	l.Refuse(!s.Enabled && s != Settings{}, "enabled", s.Enabled,
		"but other TLS settings are made; set it to true or remove them")
	return l.Err()
}

func checkPair(l *fault.List, certFile, keyFile string) {
	l.Refuse(certFile != "" && keyFile == "", "key_file", "", "is needed with cert_file")
	l.Refuse(keyFile != "" && certFile == "", "cert_file", "", "is needed with key_file")
}

// Open reads the files. It returns nil where TLS is not enabled. An error names the
// setting and the file, and never holds the file's content. A nil log discards.
func (s Settings) Open(log *slog.Logger) (*Client, error) {
	if !s.Enabled {
		return nil, nil
	}
	client := &Client{files: s, log: cmp.Or(log, slog.New(slog.DiscardHandler))}
	var err error
	if client.good, err = s.read(); err != nil {
		return nil, err
	}
	if client.pool, client.pair, err = s.parse(client.good); err != nil {
		return nil, err
	}
	return client, nil
}

// ServerSettings is a section tls of the configuration for a server. With no file named, the server has no TLS.
type ServerSettings struct {
	CertFile string `yaml:"cert_file"` // PEM, the server's certificate and those that lead to its authority
	KeyFile  string `yaml:"key_file"`  // PEM, the key of that certificate
}

// Enabled tells whether the server has TLS.
func (s ServerSettings) Enabled() bool { return s != ServerSettings{} }

// Validate checks the settings as such; [ServerSettings.Open] reads the files.
func (s ServerSettings) Validate() error {
	var l fault.List
	checkPair(&l, s.CertFile, s.KeyFile)
	return l.Err()
}

// Open reads the files, and returns settings for a server that reads them again at each handshake. It returns nil where TLS is
// not enabled. An error names the setting and the file, and never holds the file's content. A nil log discards.
func (s ServerSettings) Open(log *slog.Logger) (*tls.Config, error) {
	if !s.Enabled() {
		return nil, nil
	}
	files, err := Settings{Enabled: true, CertFile: s.CertFile, KeyFile: s.KeyFile}.Open(log)
	if err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		_, pair := files.now()
		return pair, nil
	}}, nil
}
