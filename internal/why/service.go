package why

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	pause     = 50 * time.Millisecond // between two answers of a node
	pingEvery = 10 * time.Second      // of the subscription: each ping wakes Redis, and questions are rare
)

// Options of a [Service]; all are required.
type Options struct {
	Redis     redis.UniversalClient
	Namespace string
	Answer    func(Question) Answer
	Logger    *slog.Logger
}

// Service answers questions on a node.
type Service struct{ opts Options }

// New makes a service. It connects to nothing.
func New(o Options) *Service { return &Service{o} }

// Run answers questions until ctx ends, and returns nil then.
func (s *Service) Run(ctx context.Context) error {
	sub := s.opts.Redis.Subscribe(ctx, questions(s.opts.Namespace))
	defer func() { _ = sub.Close() }() // nothing is under way that its error could concern
	messages := sub.Channel(redis.WithChannelHealthCheckInterval(pingEvery))
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-messages:
			s.answer(ctx, m.Payload)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

func (s *Service) answer(ctx context.Context, text string) {
	q, ok := decodeQuestion(text)
	if !ok {
		return
	}
	reply, err := encoded(s.opts.Answer(q))
	if err == nil {
		err = s.opts.Redis.Publish(ctx, answers(s.opts.Namespace, q.ID), reply).Err()
	}
	if err != nil && ctx.Err() == nil {
		s.opts.Logger.Warn("a question about a job or a limit could not be answered", "error", err)
	}
}

// encoded is an answer with as many jobs as fit.
func encoded(a Answer) ([]byte, error) {
	for {
		text, err := json.Marshal(a)
		if err != nil || len(text) <= mostAnswer || len(a.Jobs) == 0 {
			return text, err
		}
		a.Jobs = a.Jobs[:len(a.Jobs)-1]
	}
}

// decodeQuestion reads a question; false: it is none.
func decodeQuestion(text string) (q Question, ok bool) {
	if len(text) > mostQuestion || json.Unmarshal([]byte(text), &q) != nil || q.validate() != nil || len(q.ID) != idLength {
		return Question{}, false
	}
	for _, r := range q.ID {
		if (r < '0' || r > '9') && (r < 'a' || r > 'f') {
			return Question{}, false
		}
	}
	return q, true
}

func questions(namespace string) string { return "dispatcher:{" + namespace + "}:why" }

func answers(namespace, id string) string { return questions(namespace) + ":" + id }
