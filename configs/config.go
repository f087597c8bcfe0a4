package configs

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"dispatcher/throttle/limit"
)

// Config is all that can be set. default.yaml says what each key means and what
// it is by default.
type Config struct {
	Node   string  `yaml:"node"`
	Log    Log     `yaml:"log"`
	Kafka  Kafka   `yaml:"kafka"`
	Redis  Redis   `yaml:"redis"`
	Limits []Limit `yaml:"limits"`
	Sender Sender  `yaml:"sender"`
	Dedup  Dedup   `yaml:"dedup"`
	Admin  Admin   `yaml:"admin"`

	// written maps the path of each text that held references to what stood
	// there before they were replaced.
	written map[string]string
	env     map[string]string // that the references were looked up in
}

// Log says what is logged, and how.
type Log struct {
	Level  string `yaml:"level"`  // debug, info, warn, error
	Format string `yaml:"format"` // text, json
}

// Kafka says where jobs come from. Sizes are in bytes.
type Kafka struct {
	Brokers        []string      `yaml:"brokers"`
	Group          string        `yaml:"group"`
	Topics         []string      `yaml:"topics"`
	Lanes          []Lane        `yaml:"lanes"`         // instead of Topics, in order of priority
	Order          string        `yaml:"order"`         // key, partition, none
	RetryTopics    []string      `yaml:"retry_topics"`  // durations, rising
	JobTimeout     time.Duration `yaml:"job_timeout"`   // 0: none
	StalledAfter   time.Duration `yaml:"stalled_after"` // 0: never
	MaxAsleep      int           `yaml:"max_asleep"`
	MaxAsleepBytes int           `yaml:"max_asleep_bytes"`
	Workers        int           `yaml:"workers"`
	MaxJobBytes    int           `yaml:"max_job_bytes"`
	StartAt        string        `yaml:"start_at"`     // first, last
	OutOfRange     string        `yaml:"out_of_range"` // earliest, latest, stop
	CreateTopics   bool          `yaml:"create_topics"`
	Results        bool          `yaml:"results"`
	CommitInterval time.Duration `yaml:"commit_interval"`
	Heartbeat      time.Duration `yaml:"heartbeat"`
	Session        time.Duration `yaml:"session"`
	Drain          time.Duration `yaml:"drain"`
	SASL           SASL          `yaml:"sasl"`
	TLS            TLS           `yaml:"tls"`
}

// Lane is a set of topics whose jobs go before those of the lanes that follow.
type Lane struct {
	Name     string   `yaml:"name"`
	Topics   []string `yaml:"topics"`
	MinShare float64  `yaml:"min_share"` // least share of a node's hand-outs; 0: none
}

// JobTopics are the topics of all lanes, in order of priority.
func (k Kafka) JobTopics() []string {
	all := slices.Clone(k.Topics)
	for _, l := range k.Lanes {
		all = append(all, l.Topics...)
	}
	return all
}

// Tiers are the RetryTopics as durations.
func (k Kafka) Tiers() ([]time.Duration, error) {
	var tiers []time.Duration
	for i, text := range k.RetryTopics {
		d, err := time.ParseDuration(text)
		if err != nil {
			return nil, fmt.Errorf("kafka.retry_topics.%d: %s: must be a duration with a unit, such as 5s", i, show(text))
		}
		tiers = append(tiers, d)
	}
	return tiers, nil
}

// SASL says how a node proves to Kafka who it is.
type SASL struct {
	Mechanism string `yaml:"mechanism"` // "", plain, scram-sha-256, scram-sha-512, oauthbearer, aws_msk_iam
	Username  string `yaml:"username"`
	Password  string `yaml:"password" secret:"true"`
	OAuth     OAuth  `yaml:"oauth"`
	AWS       AWS    `yaml:"aws"`
}

// OAuth is for the mechanism oauthbearer: a token, or where to get one.
type OAuth struct {
	Token        string   `yaml:"token" secret:"true"`
	TokenURL     string   `yaml:"token_url"`
	ClientID     string   `yaml:"client_id"`
	ClientSecret string   `yaml:"client_secret" secret:"true"`
	Scopes       []string `yaml:"scopes"`
	Audience     string   `yaml:"audience"`
	Extensions   []string `yaml:"extensions"` // name=value
	CAFile       string   `yaml:"ca_file"`    // for TokenURL
}

// ExtensionsByName are the Extensions taken apart.
func (o OAuth) ExtensionsByName() map[string]string {
	all := make(map[string]string, len(o.Extensions))
	for _, text := range o.Extensions {
		name, value, _ := strings.Cut(text, "=")
		all[name] = value
	}
	return all
}

// AWS is for the mechanism aws_msk_iam.
type AWS struct {
	Region string `yaml:"region"` // empty: found as AWS's SDK does, or in the brokers' names
}

// TLS says how a connection is encrypted; [TLS.Open] makes it usable.
type TLS struct {
	Enabled    bool   `yaml:"enabled"`
	CAFile     string `yaml:"ca_file"`
	CertFile   string `yaml:"cert_file"`
	KeyFile    string `yaml:"key_file"`
	ServerName string `yaml:"server_name"`
}

// Redis says where the fleet shares its limit. One address is a single server;
// several are a cluster or, with Master set, its sentinels.
type Redis struct {
	Addrs    []string `yaml:"addrs"`
	Master   string   `yaml:"master"`
	Cluster  bool     `yaml:"cluster"` // even where one address stands for it
	Username string   `yaml:"username"`
	Password string   `yaml:"password" secret:"true"`

	SentinelUsername string `yaml:"sentinel_username"`
	SentinelPassword string `yaml:"sentinel_password" secret:"true"`

	Namespace string `yaml:"namespace"`
	TLS       TLS    `yaml:"tls"`
}

// Limit seeds one limit: what the provider allows, and how that is kept.
type Limit struct {
	Name       string `yaml:"name"`
	limit.Spec `yaml:",inline"`
	Guard      string `yaml:"guard"` // auto, or a duration
}

// GuardAuto is a guard that the fleet chooses.
const GuardAuto = "auto"

// Stated is the limit in the limiter's own terms.
func (l Limit) Stated() limit.Spec {
	guard, err := l.guard()
	l.Spec.Guard, l.Auto = guard, l.Guard == GuardAuto || err != nil
	return l.Spec
}

// guard is the one to begin with. The error says that the text is none.
func (l Limit) guard() (time.Duration, error) {
	auto := l.Lateness + l.Spread
	if l.Guard == GuardAuto {
		return auto, nil
	}
	d, err := time.ParseDuration(l.Guard)
	if err != nil {
		return auto, err
	}
	return d, nil
}

// Sender says how a job is sent, and what follows when that fails.
type Sender struct {
	HTTP      HTTP    `yaml:"http"`
	OnUnknown string  `yaml:"on_unknown"` // retry, park, dlq
	Retry     Retry   `yaml:"retry"`
	Breaker   Breaker `yaml:"breaker"`
}

// HTTP is the call to the provider. Header names are in lower case.
type HTTP struct {
	URL              string            `yaml:"url"`
	Method           string            `yaml:"method"`
	Timeout          time.Duration     `yaml:"timeout"` // from the write to the end of the answer
	DialTimeout      time.Duration     `yaml:"dial_timeout"`
	IdleTimeout      time.Duration     `yaml:"idle_timeout"`
	MaxConnAge       time.Duration     `yaml:"max_conn_age"` // 0: without a bound
	MaxResponseBytes int               `yaml:"max_response_bytes"`
	KeepAnswers      bool              `yaml:"keep_answers"`
	MessageID        string            `yaml:"message_id"`   // header:NAME, json:PATH
	CloudEvents      string            `yaml:"cloud_events"` // as_is, binary
	Results          Results           `yaml:"results"`
	Headers          map[string]string `yaml:"headers"`
	TLS              TLS               `yaml:"tls"`
}

// Results are what statuses mean that are not as by default: a status (404) or a
// range (500-599), and the result's name.
type Results map[string]string

// Retry says how often, and after which waits, a failed call is made again.
type Retry struct {
	Attempts   int           `yaml:"attempts"` // calls in all
	Backoff    time.Duration `yaml:"backoff"`
	MaxBackoff time.Duration `yaml:"max_backoff"`
}

// Breaker says when the provider counts as down, and how often it is probed then.
type Breaker struct {
	Failures int           `yaml:"failures"` // in a row
	Probe    time.Duration `yaml:"probe"`
}

// Dedup is the dedup store: what Redis remembers of jobs that are being sent
// and that were.
type Dedup struct {
	Enabled bool          `yaml:"enabled"`
	Window  time.Duration `yaml:"window"` // for how long a job is remembered
	Margin  time.Duration `yaml:"margin"` // to use a claim in, and to say that it is done
}

// Hold is for how long a job that is being called is nobody else's.
func (l Dedup) Hold(timeout time.Duration) time.Duration { return timeout + 2*l.Margin }

// What follows a call that was written and got no answer.
const (
	UnknownRetry = "retry"
	UnknownPark  = "park"
	UnknownDead  = "dlq"
)

// Admin says where health and metrics are served; an empty Listen means nowhere.
type Admin struct {
	Listen string `yaml:"listen"` // host:port
}
