package tlsfiles

import (
	"log/slog"

	"dispatcher/internal/fault"
)

// Settings is a section tls of the configuration: how a connection is encrypted.
type Settings struct {
	Enabled    bool   `yaml:"enabled"`
	CAFile     string `yaml:"ca_file"`
	CertFile   string `yaml:"cert_file"`
	KeyFile    string `yaml:"key_file"`
	ServerName string `yaml:"server_name"`
}

// Validate returns the faults of the settings as such; [Settings.Open] reads the
// files.
func (s Settings) Validate() error {
	var l fault.List
	l.Refuse(s.CertFile != "" && s.KeyFile == "", "key_file", "", "is needed with cert_file")
	l.Refuse(s.KeyFile != "" && s.CertFile == "", "cert_file", "", "is needed with key_file")
	l.Refuse(!s.Enabled && (s.CAFile != "" || s.CertFile != "" || s.KeyFile != "" || s.ServerName != ""), "enabled", false,
		"but other TLS settings are made; set it to true or remove them")
	return l.Err()
}

// Open is [Open] with the files of the settings. It returns nil where TLS is not
// enabled.
func (s Settings) Open(log *slog.Logger) (*Client, error) {
	if !s.Enabled {
		return nil, nil
	}
	return Open(Files{CA: s.CAFile, Cert: s.CertFile, Key: s.KeyFile, ServerName: s.ServerName, Log: log})
}
