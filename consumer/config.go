package consumer

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	faults "dispatcher/internal/fault"
	"dispatcher/internal/tlsfiles"
)

// Config is the section kafka of the configuration: the [Options] that have a key,
// and how a node logs in.
type Config struct {
	Options `yaml:",inline"`

	StalledAfter time.Duration     `yaml:"stalled_after"` // a node that can't send for so long leaves its groups; 0: never
	SASL         SASLConfig        `yaml:"sasl"`
	TLS          tlsfiles.Settings `yaml:"tls"`
}

// SASLConfig is the account at the brokers.
type SASLConfig struct {
	Mechanism string      `yaml:"mechanism"` // of [SASL], in any case; empty: no account
	Username  string      `yaml:"username"`
	Password  string      `yaml:"password" secret:"true"`
	OAuth     OAuthConfig `yaml:"oauth"`
	AWS       AWSConfig   `yaml:"aws"`
}

// OAuthConfig is for the mechanism oauthbearer: a token, or where to get one.
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

// ExtensionsByName splits the Extensions.
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

// An operator's bounds are narrower than those of [Options]: smaller sizes are a
// slip of the unit.
const (
	leastJobBytes    = 1 << 10
	leastAsleepBytes = 1 << 20
)

// JobTopics are the topics of all lanes, in order of priority.
func (c Config) JobTopics() []string { return c.jobTopics() }

// Validate returns all faults of the section, each named by its key.
func (c Config) Validate() error {
	var l faults.List
	c.checkBrokers(&l)
	c.checkNames(&l)
	c.checkSizes(&l, leastJobBytes, leastAsleepBytes)
	c.checkTimes(&l)
	l.Refuse(c.StalledAfter != 0 && (c.StalledAfter < 5*time.Second || c.StalledAfter > time.Hour), "stalled_after", c.StalledAfter,
		"must be from 5s to %s, or 0s for never", time.Hour)
	l.Under("sasl", c.SASL.Validate())
	l.Under("tls", c.TLS.Validate())
	return l.Err()
}

func (c *Connection) checkBrokers(l *faults.List) {
	l.Refuse(len(c.Brokers) == 0, "brokers", c.Brokers, "name at least one")
	for i, broker := range c.Brokers {
		l.Address("brokers."+strconv.Itoa(i), broker, 1)
	}
}

func (o *Options) checkNames(l *faults.List) {
	l.Refuse(!isJobTopic(o.Group), "group", o.Group, "must be 1 to 245 letters, digits and . _ -")
	o.checkLanes(l)
	o.checkTopics(l)
	checkRetryTopics(l, o.RetryTopics)
	l.OneOf("order", string(o.Order), string(OrderKey), string(OrderPartition), string(OrderNone))
	l.OneOf("start_at", string(o.StartAt), string(StartFirst), string(StartLast))
	l.OneOf("out_of_range", string(o.OutOfRange), string(RangeEarliest), string(RangeLatest), string(RangeStop))
}

func (o *Options) checkSizes(l *faults.List, leastJob, leastAsleep int) {
	l.Within("workers", o.MaxInFlight, 1, 1<<16)
	l.Within("max_job_bytes", o.MaxJobBytes, leastJob, 64<<20)
	l.Within("max_asleep", o.MaxAsleep, 1, 1<<20)
	l.Within("max_asleep_bytes", o.MaxAsleepBytes, leastAsleep, 1<<30)
}

// checkTimes refuses times that do not fit each other: with a drain that outlasts
// the session, another node would work a partition that this one still commits for.
func (o *Options) checkTimes(l *faults.List) {
	const least = time.Millisecond
	l.Refuse(o.CommitInterval < least || o.CommitInterval > time.Second, "commit_interval", o.CommitInterval,
		"must be from 1ms to 1s: a crash repeats the jobs settled in this time")
	l.Refuse(o.Heartbeat < least, "heartbeat", o.Heartbeat, "must be at least 1ms")
	l.Refuse(o.Heartbeat > time.Second, "heartbeat", o.Heartbeat, "must be at most 1s, or a rebalance takes too long")
	l.Between("session", o.Session, least, time.Hour)
	l.Between("drain", o.Drain, least, time.Hour)
	l.Refuse(o.JobTimeout != 0 && (o.JobTimeout < time.Second || o.JobTimeout > 24*time.Hour), "job_timeout", o.JobTimeout,
		"must be from 1s to 24h, or 0s for no bound")
	l.Refuse(o.Heartbeat >= o.Session, "heartbeat", o.Heartbeat, "must be below kafka.session of %s: raise kafka.session", o.Session)
	l.Refuse(o.Drain+o.Heartbeat >= o.Session, "drain", o.Drain, "must be below kafka.session less kafka.heartbeat, %s; raise kafka.session above %s",
		o.Session-o.Heartbeat, o.Drain+o.Heartbeat)
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

// Validate returns all faults of the account. Each mechanism has settings of its
// own, and takes no other's.
func (s SASLConfig) Validate() error {
	var l faults.List
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
	l.Refuse(!login && s.Password != "", "password", faults.Hidden, "%s", only)
	l.Refuse(mechanism != saslAWS && s.AWS.Region != "", "aws.region", s.AWS.Region, "is for the mechanism %s only", saslAWS)
	l.Refuse(!regionName.MatchString(s.AWS.Region), "aws.region", s.AWS.Region, "must be the name of a region, such as eu-central-1, or empty")
	if mechanism == saslOAuth {
		l.Under("oauth", s.OAuth.validate())
	} else {
		l.Refuse(s.OAuth.isSet(), "oauth", faults.Phrase("settings are made"), "are for the mechanism %s only", saslOAuth)
	}
	return l.Err()
}

func (o OAuthConfig) isSet() bool {
	return o.Token != "" || o.TokenURL != "" || o.ClientID != "" || o.ClientSecret != "" || o.Audience != "" || o.CAFile != "" ||
		len(o.Scopes) > 0 || len(o.Extensions) > 0
}

func (o OAuthConfig) validate() error {
	const tokenURL = "kafka.sasl.oauth.token_url"
	var l faults.List
	l.Refuse(o.Token == "" && o.TokenURL == "", "token", "", "the mechanism %s needs it, or %s", saslOAuth, tokenURL)
	l.Refuse(o.Token != "" && o.TokenURL != "", "token", faults.Hidden, "can't be together with %s", tokenURL)
	for i, text := range o.Extensions {
		name, value, _ := strings.Cut(text, "=")
		l.Refuse(!isExtensionName(name) || !extensionValue.MatchString(value), "extensions."+strconv.Itoa(i), text,
			"must be name=value, the name of letters and not auth")
	}
	if o.TokenURL == "" {
		l.Refuse(o.ClientID != "", "client_id", o.ClientID, "is for %s only", tokenURL)
		l.Refuse(o.ClientSecret != "", "client_secret", faults.Hidden, "is for %s only", tokenURL)
		l.Refuse(len(o.Scopes) > 0, "scopes", o.Scopes, "are for %s only", tokenURL)
		l.Refuse(o.Audience != "", "audience", o.Audience, "is for %s only", tokenURL)
		l.Refuse(o.CAFile != "", "ca_file", o.CAFile, "is for %s only", tokenURL)
		return l.Err()
	}
	l.URL("token_url", o.TokenURL, "kafka.sasl.oauth.client_id and client_secret")
	endpoint, err := url.Parse(o.TokenURL)
	l.Refuse(err == nil && endpoint.Scheme == "http" && o.CAFile != "", "ca_file", o.CAFile, "is for a token_url of https:// only")
	l.Refuse(o.ClientID == "", "client_id", "", "%s needs one", tokenURL)
	l.Refuse(o.ClientSecret == "", "client_secret", "", "%s needs one", tokenURL)
	return l.Err()
}
