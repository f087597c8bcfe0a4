package tlsfiles

import (
	"cmp"
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
	l.Refuse(s.CertFile != "" && s.KeyFile == "", "key_file", "", "is needed with cert_file")
	l.Refuse(s.KeyFile != "" && s.CertFile == "", "cert_file", "", "is needed with key_file")
	l.Refuse(!s.Enabled && s != Settings{}, "enabled", s.Enabled,
		"but other TLS settings are made; set it to true or remove them")
	return l.Err()
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
