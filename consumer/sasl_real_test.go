package consumer_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/oauth"

	"dispatcher/consumer"
	"dispatcher/internal/containers"
)

// unsigned is a token without a signature, which Kafka accepts in tests.
func unsigned(t *testing.T, ends time.Time) string {
	t.Helper()
	claims, err := json.Marshal(map[string]any{"sub": "node", "iat": time.Now().Add(-time.Hour).Unix(), "exp": ends.Unix()})
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString(claims) + "."
}

// A real broker accepts our OAUTHBEARER, each connection reads the token again, and an expired
// token is refused. The error says so and does not show the token.
func TestOAuthBearerReal(t *testing.T) {
	t.Parallel()
	server := containers.KafkaOAuth(t)
	good := unsigned(t, time.Now().Add(time.Hour))
	other, err := kgo.NewClient(kgo.SeedBrokers(server.Addr), kgo.SASL(oauth.Auth{Token: good}.AsMechanism()))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	create := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "jobs", 1, 1
	create.Topics = append(create.Topics, topic)
	if res, err := create.RequestWith(t.Context(), other); err != nil || res.Topics[0].ErrorCode != 0 {
		t.Fatalf("%v, %+v", err, res)
	}
	calls := make(chan struct{}, 1000)
	conn := consumer.Connection{Brokers: []string{server.Addr}, SASL: &consumer.SASL{
		Mechanism: "oauthbearer", Extensions: map[string]string{"traceId": "1"},
		Token: func(context.Context) (string, error) {
			calls <- struct{}{}
			return good, nil
		},
	}}
	consumeReal(t, conn, []string{"a"}, func() { write(t, conn, "a") })
	if len(calls) < 3 {
		t.Errorf("got %d calls of Token, want one for each of several connections", len(calls))
	}
	expired := unsigned(t, time.Now().Add(-time.Minute))
	conn.SASL.Token = func(context.Context) (string, error) { return expired, nil }
	c, err := consumer.New(consumer.Options{Connection: conn, Group: "g", Topics: []string{"jobs"}})
	if err != nil {
		t.Fatal(err)
	}
	if err = c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "SASL Authentication Failed") || strings.Contains(err.Error(), expired) {
		t.Errorf("expired token: got error %v, want SASL Authentication Failed without the token", err)
	}
}
