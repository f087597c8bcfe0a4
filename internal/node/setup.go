package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"time"

	"dispatcher/configs"
	"dispatcher/consumer"
	"dispatcher/internal/gathered"
	"dispatcher/internal/node/pacer"
	"dispatcher/internal/setupcheck"
	"dispatcher/internal/version"
	"dispatcher/internal/wait"
	"dispatcher/throttle"
	"dispatcher/throttle/limit"
)

// setupAfter is how long after its start a node checks the set-up: the nodes that start with it are known then. Each adds up to
// setupSpread, so that they don't ask all at once.
const (
	setupAfter  = 5 * time.Second
	setupSpread = 5 * time.Second
)

// setupMost is how long the check may take.
const setupMost = 30 * time.Second

// setupAnswer is how long an answer of Redis is awaited, as by an operator's command.
const setupAnswer = 5 * time.Second

// CheckSetup connects to the servers of a valid configuration and looks whether they, the account and the settings
// fit each other. It writes keys of its own to Redis, for some seconds, and changes nothing else.
func CheckSetup(ctx context.Context, cfg configs.Config, log *slog.Logger) ([]setupcheck.Finding, error) {
	return checkSetup(ctx, cfg, log, setupOptions(cfg, log))
}

// checkSetup has connections of its own.
func checkSetup(ctx context.Context, cfg configs.Config, log *slog.Logger, o setupcheck.Options) ([]setupcheck.Finding, error) {
	if cfg.Limits[0].Scope != limit.ScopeNode {
		rdb, err := RedisClient(cfg, log, setupAnswer)
		if err != nil {
			return nil, err
		}
		defer func() { _ = rdb.Close() }() // nothing is under way that its error could concern
		o.Redis = rdb
	}
	ctx, cancel := context.WithTimeout(ctx, setupMost)
	defer cancel()
	return setupcheck.Run(ctx, o), nil
}

func setupOptions(cfg configs.Config, log *slog.Logger) setupcheck.Options {
	lead := pacer.MaxLead
	if cfg.Dedup.Enabled {
		lead = pacer.LeadWithClaim
	}
	return setupcheck.Options{
		Config: cfg, Identity: throttle.IdentityInfo, Lead: lead,
		Partitions: func(ctx context.Context) (map[string]int, error) {
			conn, err := KafkaConnection(cfg, log)
			if err != nil {
				return nil, err
			}
			return consumer.Reach(ctx, conn, cfg.Kafka.JobTopics())
		},
		Retention: func(ctx context.Context) (time.Duration, map[string]time.Duration, error) {
			conn, err := KafkaConnection(cfg, log)
			if err != nil {
				return 0, nil, err
			}
			return consumer.Retentions(ctx, conn, cfg.Kafka.Options)
		},
	}
}

// sharedSettings names the build, and the settings that the nodes of a fleet have in common. Secrets are no part of it.
func sharedSettings(cfg configs.Config) string {
	shared := configs.Config{Kafka: cfg.Kafka, Redis: cfg.Redis, Limits: cfg.Limits, Cost: cfg.Cost, Dedup: cfg.Dedup}
	text, err := shared.YAML()
	if err != nil {
		return "" // then each node checks everything
	}
	sum := sha256.Sum256(append(text, version.Text()...))
	return hex.EncodeToString(sum[:8])
}

// tellSetup checks the set-up once, and logs what it lacks.
func (n *Node) tellSetup(ctx context.Context, after time.Duration) {
	if !wait.For(ctx, after) || ctx.Err() != nil {
		return
	}
	o := setupOptions(n.cfg, n.log)
	o.Latency, o.Fleet = n.usualLatency(), sharedSettings(n.cfg)
	findings, err := checkSetup(ctx, n.cfg, n.log, o)
	if err != nil {
		n.log.Warn("the set-up could not be checked", "error", err)
		return
	}
	if ctx.Err() != nil {
		return // what could not be checked for that reason says nothing
	}
	for _, f := range findings {
		n.log.Warn("the set-up lacks something", "check", f.Check, "severity", string(f.Level), "found", f.Found, "remedy", f.Remedy)
	}
	n.log.Debug("the set-up was checked", "findings", len(findings))
}

// callsForUsual is how many calls say how long one usually takes.
const callsForUsual = 100

// usualLatency is how long a call took up to now; 0: too few were made.
func (n *Node) usualLatency() time.Duration {
	families, err := n.registry.all.Gather()
	if err != nil {
		return 0
	}
	count, seconds := gathered.Families(families).Histogram("dispatcher_sender_call_duration_seconds")
	if count < callsForUsual {
		return 0
	}
	return time.Duration(seconds / float64(count) * float64(time.Second))
}
