package tlsfiles

import (
	"log/slog"

	"dispatcher/internal/fault"
)

// Config is a client's section tls. With no file named, the client trusts the
// system's authorities and shows no certificate.
type Config struct {
	Enabled    bool   `yaml:"enabled"`
	CAFile     string `yaml:"ca_file"`   // PEM, the authorities; empty: the system's
	CertFile   string `yaml:"cert_file"` // PEM, the client's certificate; empty: none
	KeyFile    string `yaml:"key_file"`  // PEM, the key of that certificate
	ServerName string `yaml:"server_name"`
}

// Validate checks the settings as such; [Config.Open] reads the files.
func (c Config) Validate() error {
	var l fault.List
	l.Refuse((c.CertFile == "") != (c.KeyFile == ""), "cert_file and key_file", fault.Phrase("one without the other"),
		"name both files, or neither")
	l.Refuse(!c.Enabled && (c.CAFile != "" || c.CertFile != "" || c.KeyFile != "" || c.ServerName != ""), "enabled", c.Enabled,
		"but other TLS settings are made; set it to true or remove them")
	return l.Err()
}

// Open reads the files. It returns nil where TLS is not enabled. An error names the
// setting and the file, and never holds the file's content. A nil log discards.
func (c Config) Open(log *slog.Logger) (*Client, error) {
	if !c.Enabled {
		return nil, nil
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	client := &Client{files: c, log: log}
	read, err := c.read()
	if err != nil {
		return nil, err
	}
	if client.pool, client.pair, err = c.parse(read); err != nil {
		return nil, err
	}
	client.good = read
	return client, nil
}
