package node

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dispatcher/configs"
	"dispatcher/consumer"
)

// The Kafka settings of the configuration reach the consumer.
func TestTheConsumerGetsItsSettings(t *testing.T) {
	t.Parallel()
	cfg := configs.Config{Cost: "2", Kafka: consumer.Config{Options: consumer.Options{
		Connection: consumer.Connection{Brokers: []string{"127.0.0.1:9092"}, MaxBatchBytes: 23456789},
		Group:      "g", Topics: []string{"jobs"}, Order: "partition", Workers: 7, MaxJobBytes: 12345,
		CommitInterval: time.Second, Heartbeat: 2 * time.Second, Session: 30 * time.Second, Drain: 3 * time.Second, JobTimeout: time.Minute,
		CreateTopics: true, Results: true, StartAt: "last", OutOfRange: "stop",
	}}}
	got, err := consumerOptions(cfg, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		field     string
		got, want any
	}{
		{"kafka.max_job_bytes", got.MaxJobBytes, 12345},
		{"cost", got.IgnoreCost, true},
		{"kafka.max_batch_bytes", got.MaxBatchBytes, 23456789},
		{"kafka.group", got.Group, "g"},
		{"kafka.order", got.Order, consumer.OrderPartition},
		{"kafka.workers", got.Workers, 7},
		{"kafka.commit_interval", got.CommitInterval, time.Second},
		{"kafka.heartbeat", got.Heartbeat, 2 * time.Second},
		{"kafka.session", got.Session, 30 * time.Second},
		{"kafka.drain", got.Drain, 3 * time.Second},
		{"kafka.job_timeout", got.JobTimeout, time.Minute},
		{"kafka.create_topics", got.CreateTopics, true},
		{"kafka.results", got.Results, true},
		{"kafka.start_at", got.StartAt, consumer.StartLast},
		{"kafka.out_of_range", got.OutOfRange, consumer.RangeStop},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %v, want %v", c.field, c.got, c.want)
		}
	}
}

// Slots are used in a drain as long as their calls end within it, and half of what it is longer is left to settle their jobs.
func TestTheTimeForSlotsLeavesTheDrainTheLongestCall(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ drain, timeout, want time.Duration }{
		{7 * time.Second, 5 * time.Second, 300 * time.Millisecond},
		{5100 * time.Millisecond, 5 * time.Second, 50 * time.Millisecond},
		{5 * time.Second, 5 * time.Second, 0},
		{time.Second, 5 * time.Second, 0},
	} {
		var cfg configs.Config
		cfg.Kafka.Drain, cfg.Sender.HTTP.Timeout = row.drain, row.timeout
		if got := slotTime(cfg); got != row.want {
			t.Errorf("a drain of %v, calls of %v: got %v, want %v", row.drain, row.timeout, got, row.want)
		}
	}
}

// A check reads the files of the admin server, although it opens no port.
func TestACheckReadsTheAdminsFiles(t *testing.T) {
	t.Parallel()
	cfg, err := configs.Load(configs.Source{Set: []string{
		"admin.auth.tokens.0.name=anna", "admin.auth.tokens.0.role=viewer", "admin.auth.tokens.0.file=/no/token", "admin.listen=0.0.0.0:0",
	}})
	if err != nil || cfg.Validate() != nil {
		t.Fatal(err, cfg.Validate())
	}
	if err := Check(cfg); err == nil || !strings.Contains(err.Error(), `admin.auth.tokens.0.file: "/no/token": can't be read`) {
		t.Errorf("got %v, want the file named", err)
	}
	cfg.Admin.Auth.Tokens[0].File = filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(cfg.Admin.Auth.Tokens[0].File, []byte("annas-token-of-some-length"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Check(cfg); err != nil {
		t.Errorf("got %v, want it accepted", err)
	}
}
