package configs

import (
	"fmt"

	"dispatcher/internal/tlsfiles"
)

// faultsOfFiles are the faults of the files for TLS and of tokens, except those of
// settings that could not be read.
func (c Config) faultsOfFiles(unread []string) []error {
	var found []error
	for _, section := range []struct {
		path string
		tls  tlsfiles.Settings
	}{
		{"kafka.tls", c.Kafka.TLS},
		{"kafka.sasl.oauth", tlsfiles.Settings{Enabled: true, CAFile: c.Kafka.SASL.OAuth.CAFile}},
		{"redis.tls", c.Redis.TLS},
		{"sender.http.tls", c.Sender.HTTP.TLS},
	} {
		if _, err := section.tls.Open(nil); err != nil && !concerns(section.path, unread) {
			found = append(found, fmt.Errorf("%s.%w", section.path, err))
		}
	}
	if err := c.Admin.CheckFiles(); err != nil && !concerns("admin", unread) {
		found = append(found, err)
	}
	return found
}
