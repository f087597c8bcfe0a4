package redisclient

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Timeout is for how long an answer is awaited by default, as suits a node.
const Timeout = 250 * time.Millisecond

// Options says where Redis is.
type Options struct {
	Addrs    []string // one: a single server; several: a Cluster, or Sentinels with Master
	Master   string   // the name of the master that the Sentinels watch
	Cluster  bool     // a Cluster, even where a single address stands for it
	Username string
	Password string

	// Login returns the account at each new connection, instead of Username and
	// Password; nil: these hold.
	Login func(ctx context.Context) (username, password string, err error)

	SentinelUsername string // the Sentinels' own account; empty: they ask for none
	SentinelPassword string

	TLS  *tls.Config
	Name string // of the client, as CLIENT LIST shows it

	Timeout time.Duration // of one answer; 0: [Timeout]

	// Dial opens a connection, and encrypts it where that is wanted; nil: the
	// network's own, with TLS.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// hush keeps go-redis from writing to standard error past the logger: errors are
// returned, and the limiter logs them once.
var hush = sync.OnceFunc(func() { redis.SetLogger(&logging.VoidLogger{}) }) //nolint:gochecknoglobals // the library's logger is global

// clusterMapAge is how old the client's map of a Cluster may become. A primary
// that is gone answers MOVED to nobody, so only the map names its successor.
const clusterMapAge = time.Second

// New makes a client that suits the limiter: it tries nothing again by
// itself, since a reservation that is sent twice has to carry its own number, and
// it follows the context. In a Cluster it follows a slot that has moved; a reservation
// sent again that way carries the number of the first.
func New(o Options) redis.UniversalClient {
	hush()
	options := universal(o)
	if o.Cluster || o.Master == "" && len(o.Addrs) > 1 {
		cluster := options.Cluster()
		cluster.ClusterStateReloadInterval = clusterMapAge
		// A script goes where its keys are; asking what each command wants would
		// cost the account another right.
		cluster.DisableRoutingPolicies = true
		return redis.NewClusterClient(cluster)
	}
	return redis.NewUniversalClient(options)
}

func universal(o Options) *redis.UniversalOptions {
	return &redis.UniversalOptions{
		Addrs:      o.Addrs,
		MasterName: o.Master,
		Username:   o.Username,
		Password:   o.Password,
		TLSConfig:  o.TLS,
		ClientName: o.Name,
		Dialer:     o.Dial,

		CredentialsProviderContext: o.Login,

		SentinelUsername: o.SentinelUsername,
		SentinelPassword: o.SentinelPassword,

		MaxRetries:            -1,
		DialerRetries:         1, // 5, the default, turns a refused connection into 0.4 s
		DialTimeout:           time.Second,
		ReadTimeout:           cmp.Or(o.Timeout, Timeout),
		WriteTimeout:          cmp.Or(o.Timeout, Timeout),
		ContextTimeoutEnabled: true,
		PoolSize:              4,
		// Notices of maintenance would cost a goroutine and a command a connection, and
		// a limiter would do nothing else because of them.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}
