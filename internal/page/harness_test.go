package page_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/admin"
	"dispatcher/configs"
	"dispatcher/consumer"
	"dispatcher/consumer/dlq"
	"dispatcher/internal/api"
	"dispatcher/internal/auth"
	"dispatcher/internal/background"
	"dispatcher/internal/embedded"
	"dispatcher/internal/limits"
	"dispatcher/internal/node"
	"dispatcher/internal/page"
	"dispatcher/internal/problem"
	"dispatcher/internal/provider"
	"dispatcher/internal/redisclient"
	"dispatcher/internal/redrive"
	"dispatcher/job"
)

const fleetFile = `
limits:
  - {name: provider, cap: 300, window: 1s, max_step: 4}
  - {name: recipient, key: job.json.to, cap: 5, window: 1s}
kafka:
  lanes:
    - {name: codes, topics: [codes]}
    - {name: bulk, topics: [jobs], min_share: 0.1}
`

// site is an embedded fleet of three nodes with the page, as the admin server of a node serves it.
type site struct {
	*testing.T

	url   string
	parts *embedded.Parts
	down  atomic.Bool // the API answers nothing
	chose atomic.Bool // the fleet chose another guard after each change: the settings are signed by it
	open  sync.Map    // what ends each request
}

// newSite has the API ask for a token where some are given.
func newSite(t *testing.T, jobs int, tokens ...auth.Token) *site {
	t.Helper()
	file := filepath.Join(t.TempDir(), "dispatcher.yaml")
	if err := os.WriteFile(file, []byte(fleetFile), 0o600); err != nil {
		t.Fatal(err)
	}
	parts, err := embedded.New(embedded.Options{File: file, MoreTopics: []string{"codes"}, Provider: provider.Options{Behaviour: usual}})
	if err != nil {
		t.Fatal(err)
	}
	if err := parts.Provider.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	background.Run(t, parts.Run)
	s := &site{T: t, parts: parts}
	s.enqueue("jobs", jobs)
	s.enqueue("codes", codes)
	settings := []string{"kafka.topics="} // the lanes have them
	fleet, err := embedded.NewFleet(parts, 3, slog.New(slog.DiscardHandler), settings...)
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, fleet.Run)
	cfg, err := parts.Config(settings...)
	if err != nil {
		t.Fatal(err)
	}
	rdb := redisclient.New(redisclient.Options{Addrs: []string{parts.RedisAddr()}})
	t.Cleanup(func() { _ = rdb.Close() })
	s.awaitLimit(limits.NewReader(cfg, rdb))
	server, err := admin.New(admin.Options{
		Config: admin.Config{Listen: "127.0.0.1:0", Auth: auth.Settings{Tokens: tokens}},
		API:    s.away(api.New(s.options(cfg, rdb))), Page: page.Handler(),
	})
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, server.Run)
	s.url = "http://" + server.Addr()
	if jobs == 0 {
		s.awaitCodes()
	}
	return s
}

// codes is how many urgent jobs each site gets.
const codes = 20

// awaitCodes waits until the urgent jobs were called: a pause is to find nothing that waits.
func (s *site) awaitCodes() {
	s.Helper()
	s.await(func() error {
		if got := s.parts.Provider.Count(); got < codes {
			return fmt.Errorf("the provider got %d calls, want %d", got, codes)
		}
		return nil
	})
}

// awaitLimit waits until a node has put the limit of the file into Redis.
func (s *site) awaitLimit(r limits.Reader) {
	s.Helper()
	s.await(func() error {
		_, err := r.Read(s.Context(), "provider", nil)
		return err
	})
}

// await waits for a minute at most until lacks is nil; then the test fails with what is lacking.
func (s *site) await(lacks func() error) {
	s.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-tick.C {
		err := lacks()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			s.Fatal(err)
		}
	}
}

// options serve what a node serves, redrives among it.
func (s *site) options(cfg configs.Config, rdb redis.UniversalClient) api.Options {
	s.Helper()
	log := slog.New(slog.DiscardHandler)
	conn, err := node.KafkaConnection(cfg, log)
	if err != nil {
		s.Fatal(err)
	}
	o := dlq.Options{Connection: conn, Group: cfg.Kafka.Group, JobTopics: cfg.Kafka.JobTopics()}
	letters, err := dlq.New(o)
	if err != nil {
		s.Fatal(err)
	}
	redrives := redrive.New(redrive.Options{
		Store: redrive.NewStore(rdb, cfg.Redis.Namespace), Runner: redrive.Kafka(o), Node: "node-1", Logger: log,
	})
	background.Run(s.T, redrives.Run)
	return api.Options{Reader: limits.NewReader(cfg, rdb), Redrives: redrives, DeadLetters: letters}
}

// tokenOf writes a token into a file.
func tokenOf(t *testing.T, name string, role auth.Role, text string) auth.Token {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return auth.Token{Name: name, Role: role, File: file}
}

// usual is how the provider answers.
var usual = provider.Behaviour{Latency: 20 * time.Millisecond}

func (s *site) enqueue(topic string, n int) {
	s.Helper()
	records := make([]job.Record, n)
	for i := range records {
		records[i].Value = fmt.Appendf(nil, `{"id":"%s-%d","to":"r%d"}`, topic, i, i%400)
	}
	s.write(topic, records)
}

func (s *site) write(topic string, records []job.Record) {
	s.Helper()
	producer, err := consumer.NewProducer(consumer.ProducerOptions{Connection: consumer.Connection{Brokers: s.parts.Brokers()}})
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = producer.Close() }()
	if err := producer.WriteBatch(s.Context(), topic, records); err != nil {
		s.Fatal(err)
	}
}

// campaign writes jobs of a campaign.
func (s *site) campaign(name string, n int) {
	s.Helper()
	records := make([]job.Record, n)
	for i := range records {
		records[i] = job.Record{Value: fmt.Appendf(nil, `{"id":"%s-%d","to":"r%d"}`, name, i, i), Headers: []job.Header{{Key: "campaign", Value: []byte(name)}}}
	}
	s.write("jobs", records)
}

// calls are the calls of each job of a campaign.
func (s *site) calls(campaign string) map[string]int {
	calls := map[string]int{}
	for _, a := range s.parts.Provider.Arrivals() {
		if strings.HasPrefix(a.Key, campaign+"-") {
			calls[a.Key]++
		}
	}
	return calls
}

// away stands in for a node that is away while down says so.
func (s *site) away(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		s.open.Store(r, cancel)
		defer s.open.Delete(r)
		if s.down.Load() {
			problem.Write(w, problem.Error{Status: http.StatusServiceUnavailable, Detail: "the node is away"})
			return
		}
		if s.chose.Load() && r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/limits/provider") {
			signedByFleet(w, r, next)
			return
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

var author = regexp.MustCompile(`"by":"[^"]*"`)

func signedByFleet(w http.ResponseWriter, r *http.Request, next http.Handler) {
	rec := httptest.NewRecorder()
	next.ServeHTTP(rec, r)
	maps.Copy(w.Header(), rec.Header())
	w.Header().Del("Content-Length")
	w.WriteHeader(rec.Code)
	_, _ = w.Write(author.ReplaceAll(rec.Body.Bytes(), []byte(`"by":"dispatcher"`)))
}

// goes takes the node away, and ends what it serves.
func (s *site) goes() {
	s.down.Store(true)
	s.open.Range(func(_, cancel any) bool { cancel.(context.CancelFunc)(); return true })
}

// changes makes a change as another operator would.
func (s *site) changes(method, path, body string) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, s.url+"/api/v1/limits/provider"+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("If-Match", "*")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		s.Fatalf("got %d %s", resp.StatusCode, text)
	}
}

// blocks writes events of so many blocks, as nodes do whose calls the provider refuses. An event has its time in whole
// milliseconds: these are of the next one, so that they come after every change.
func (s *site) blocks(n int) {
	s.Helper()
	rdb := redisclient.New(redisclient.Options{Addrs: []string{s.parts.RedisAddr()}})
	defer func() { _ = rdb.Close() }()
	now, err := rdb.Time(s.Context()).Result()
	if err != nil {
		s.Fatal(err)
	}
	for i := range n {
		args := &redis.XAddArgs{
			Stream: "dispatcher:{default}:events:provider", ID: fmt.Sprintf("%d-%d", now.UnixMilli()+1, i),
			Values: []string{"event", "blocked for 1s", "by", "node-1"},
		}
		if err := rdb.XAdd(s.Context(), args).Err(); err != nil {
			s.Fatal(err)
		}
	}
}
