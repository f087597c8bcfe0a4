package tracing

import (
	"net/url"
	"strings"
	"unicode"

	"dispatcher/internal/fault"
)

// Config is the section tracing. default.yaml has the meaning of each key.
type Config struct {
	Endpoint    string            `yaml:"endpoint"`     // a URL; empty: tracing is off
	SampleRatio float64           `yaml:"sample_ratio"` // of the jobs without a traceparent, from 0 to 1
	Insecure    bool              `yaml:"insecure"`     // the endpoint may be http://
	Headers     map[string]string `yaml:"headers" secret:"true"`
}

const mostHeaders = 16

// Validate returns every fault at once. It shows no header's value.
func (c Config) Validate() error {
	var l fault.List
	l.Refuse(!(c.SampleRatio >= 0 && c.SampleRatio <= 1), "sample_ratio", c.SampleRatio, "must be from 0 to 1")
	l.Refuse(len(c.Headers) > mostHeaders, "headers", fault.Entries(len(c.Headers)), "at most %d are sent", mostHeaders)
	for name, value := range c.Headers {
		l.Refuse(strings.ContainsFunc(value, unicode.IsControl), "headers."+name, fault.Hidden, "holds a line break or another control character")
	}
	if c.Endpoint == "" {
		return l.Err()
	}
	l.URL("endpoint", c.Endpoint, "tracing.headers")
	if u, err := url.Parse(c.Endpoint); err == nil && u.Host != "" {
		l.Refuse(u.RawQuery != "", "endpoint", fault.Hidden, "holds a query, which is never sent; put credentials into tracing.headers")
		l.Refuse(u.Scheme == "http" && !c.Insecure, "endpoint", fault.Hidden, "is not encrypted: use https://, or set tracing.insecure: true")
	}
	return l.Err()
}
