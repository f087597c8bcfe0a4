package configs

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"

	"dispatcher/internal/tlsfiles"
)

// Open reads the files and returns what follows them: connections that are made
// later use what they hold then. It returns nil where TLS is not enabled. Errors
// name the file; they never hold what is in it.
func (t TLS) Open(log *slog.Logger) (*tlsfiles.Client, error) {
	if !t.Enabled {
		return nil, nil
	}
	return tlsfiles.Open(tlsfiles.Files{CA: t.CAFile, Cert: t.CertFile, Key: t.KeyFile, ServerName: t.ServerName, Log: log})
}

// Build reads the files once. It returns nil where TLS is not enabled.
func (t TLS) Build() (*tls.Config, error) {
	files, err := t.Open(nil)
	if err != nil || files == nil {
		return nil, err
	}
	return files.Config(), nil
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

// faultsOfFiles are those of the files that the settings name, but for the
// settings that could not be read.
func (c Config) faultsOfFiles(unread []string) []error {
	f := &faults{config: &c, unread: unread}
	for _, section := range []struct {
		path string
		tls  TLS
	}{
		{"kafka.tls", c.Kafka.TLS},
		{"kafka.sasl.oauth", TLS{Enabled: true, CAFile: c.Kafka.SASL.OAuth.CAFile}},
		{"redis.tls", c.Redis.TLS},
		{"sender.http.tls", c.Sender.HTTP.TLS},
	} {
		if _, err := section.tls.Open(nil); err != nil {
			f.add(section.path, fmt.Errorf("%s.%w", section.path, err))
		}
	}
	return f.found
}
