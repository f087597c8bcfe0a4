package auth

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"dispatcher/internal/fault"
	"dispatcher/internal/loopback"
)

// SASLConfig is the account at the brokers, as in the configuration file.
type SASLConfig struct {
	Mechanism string      `yaml:"mechanism"` // as in [SASL], upper or lower case; empty: no account
	Username  string      `yaml:"username"`
	Password  string      `yaml:"password" secret:"true"`
	OAuth     OAuthConfig `yaml:"oauth"`
	AWS       AWSConfig   `yaml:"aws"`
}

// OAuthConfig is for the mechanism oauthbearer: a token, or the endpoint that issues one.
type OAuthConfig struct {
	Token        string   `yaml:"token" secret:"true"`
	TokenURL     string   `yaml:"token_url"`
	ClientID     string   `yaml:"client_id"`
	ClientSecret string   `yaml:"client_secret" secret:"true"`
	Scopes       []string `yaml:"scopes"`
	Audience     string   `yaml:"audience"`
	Extensions   []string `yaml:"extensions"` // name=value
	CAFile       string   `yaml:"ca_file"`    // for TokenURL
}

// ExtensionsByName splits the Extensions at their first equals sign.
func (o OAuthConfig) ExtensionsByName() map[string]string {
	all := make(map[string]string, len(o.Extensions))
	for _, text := range o.Extensions {
		name, value, _ := strings.Cut(text, "=")
		all[name] = value
	}
	return all
}

// AWSConfig is for the mechanism aws_msk_iam.
type AWSConfig struct {
	Region string `yaml:"region"` // see [SASL.Region]
}

// The mechanisms, in lower case.
const (
	saslPlain    = "plain"
	saslSCRAM256 = "scram-sha-256"
	saslSCRAM512 = "scram-sha-512"
	saslOAuth    = "oauthbearer"
	saslAWS      = "aws_msk_iam"
)

var regionName = regexp.MustCompile(`^[a-z0-9-]{0,64}$`)

// Validate returns all faults of the account. Each mechanism refuses the settings of the
// others.
func (s SASLConfig) Validate() error {
	var l fault.List
	mechanism := strings.ToLower(s.Mechanism)
	withLogin := []string{saslPlain, saslSCRAM256, saslSCRAM512}
	login := slices.Contains(withLogin, mechanism)
	names := strings.Join(withLogin, ", ")
	if !login && mechanism != "" && mechanism != saslOAuth && mechanism != saslAWS {
		l.Refuse(true, "mechanism", s.Mechanism, "must be one of %s, %s, %s, or empty", names, saslOAuth, saslAWS)
		return l.Err()
	}
	l.Refuse(login && s.Username == "", "username", "", "the mechanism %s needs one", mechanism)
	only := "is for the mechanisms " + names + " only; set kafka.sasl.mechanism to one, or remove it"
	l.Refuse(!login && s.Username != "", "username", s.Username, "%s", only)
	l.Refuse(!login && s.Password != "", "password", fault.Hidden, "%s", only)
	l.Refuse(mechanism != saslAWS && s.AWS.Region != "", "aws.region", s.AWS.Region, "is for the mechanism %s only", saslAWS)
	l.Refuse(!regionName.MatchString(s.AWS.Region), "aws.region", s.AWS.Region, "must be the name of a region, such as eu-central-1, or empty")
	if mechanism == saslOAuth {
		l.Under("oauth", s.OAuth.validate())
	} else {
		l.Refuse(s.OAuth.isSet(), "oauth", fault.Phrase("settings are made"), "are for the mechanism %s only", saslOAuth)
	}
	return l.Err()
}

func (o OAuthConfig) isSet() bool {
	return o.Token != "" || o.TokenURL != "" || o.ClientID != "" || o.ClientSecret != "" || o.Audience != "" || o.CAFile != "" ||
		len(o.Scopes) > 0 || len(o.Extensions) > 0
}

func (o OAuthConfig) validate() error {
	const tokenURL = "kafka.sasl.oauth.token_url"
	var l fault.List
	l.Refuse(o.Token == "" && o.TokenURL == "", "token", "", "the mechanism %s needs it, or %s", saslOAuth, tokenURL)
	l.Refuse(o.Token != "" && o.TokenURL != "", "token", fault.Hidden, "can't be together with %s", tokenURL)
	for i, text := range o.Extensions {
		name, value, _ := strings.Cut(text, "=")
		l.Refuse(!isExtensionName(name) || !extensionValue.MatchString(value), "extensions."+strconv.Itoa(i), text,
			"must be name=value, the name of letters and not auth")
	}
	if o.TokenURL == "" {
		l.Refuse(o.ClientID != "", "client_id", o.ClientID, "is for %s only", tokenURL)
		l.Refuse(o.ClientSecret != "", "client_secret", fault.Hidden, "is for %s only", tokenURL)
		l.Refuse(len(o.Scopes) > 0, "scopes", o.Scopes, "are for %s only", tokenURL)
		l.Refuse(o.Audience != "", "audience", o.Audience, "is for %s only", tokenURL)
		l.Refuse(o.CAFile != "", "ca_file", o.CAFile, "is for %s only", tokenURL)
		return l.Err()
	}
	l.URL("token_url", o.TokenURL, "kafka.sasl.oauth.client_id and client_secret")
	if endpoint, err := url.Parse(o.TokenURL); err == nil && endpoint.Scheme == "http" {
		l.Refuse(!loopback.Is(endpoint.Hostname()), "token_url", fault.Hidden, "is not encrypted, and the client's secret goes there: use https://")
		l.Refuse(o.CAFile != "", "ca_file", o.CAFile, "is for a token_url of https:// only")
	}
	l.Refuse(o.ClientID == "", "client_id", "", "%s needs one", tokenURL)
	l.Refuse(o.ClientSecret == "", "client_secret", "", "%s needs one", tokenURL)
	return l.Err()
}
