package auth

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

func tokenSASL(token string, extensions map[string]string) *SASL {
	return &SASL{Mechanism: "OAUTHBEARER", Token: func(context.Context) (string, error) { return token, nil }, Extensions: extensions}
}

func mechanismOf(t *testing.T, s *SASL) sasl.Mechanism {
	t.Helper()
	m, err := s.KafkaGo()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The first message is that of RFC 7628, 3.1, with the extensions in a fixed order.
func TestOAuthBearerSendsTheToken(t *testing.T) {
	t.Parallel()
	m := mechanismOf(t, tokenSASL("aB1-._~+/==", map[string]string{"logicalCluster": "lkc-1", "identityPoolId": "pool 1"}))
	state, first, err := m.Start(t.Context())
	want := "n,,\x01auth=Bearer aB1-._~+/==\x01identityPoolId=pool 1\x01logicalCluster=lkc-1\x01\x01"
	if err != nil || string(first) != want || m.Name() != "OAUTHBEARER" {
		t.Fatalf("got %q, %v by %s, want %q", first, err, m.Name(), want)
	}
	if done, response, err := state.Next(t.Context(), nil); !done || len(response) != 0 || err != nil {
		t.Errorf("after a yes: got %t, %q, %v, want the end", done, response, err)
	}
}

// A broker that refuses says why, gets \x01 (RFC 7628, 3.2.3), and ends the exchange.
func TestOAuthBearerHearsARefusal(t *testing.T) {
	t.Parallel()
	state, _, err := mechanismOf(t, tokenSASL("token", nil)).Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	done, response, err := state.Next(t.Context(), []byte(`{"status":"invalid_token"}`))
	if done || string(response) != "\x01" || err != nil {
		t.Errorf("got %t, %q, %v, want the one byte that ends it", done, response, err)
	}
	if done, _, err := state.Next(t.Context(), nil); done || err == nil {
		t.Errorf("got %t, %v of a broker that goes on, want an error", done, err)
	}
}

// What can't be a token is never sent: it could end the field that it is in.
func TestNoTokenLeavesItsField(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"", "hush\x01auth=Bearer x", "hush hush", "hush\n", "=hush", strings.Repeat("h", maxTokenBytes+1)} {
		_, _, err := mechanismOf(t, tokenSASL(token, nil)).Start(t.Context())
		if err == nil || !errors.Is(err, ErrUnsuitable) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%.20q: got %v, want an error without it that is not tried again", token, err)
		}
	}
}

// A name or a password that a mechanism can't carry is not quoted, and not tried
// again. One that can't be read now is.
func TestWhatAMechanismCannotCarry(t *testing.T) {
	t.Parallel()
	for mechanism, password := range map[string]string{"plain": "hush\x00", "scram-sha-256": "hush\x07", "scram-sha-512": "hush\x07"} {
		_, _, err := mechanismOf(t, &SASL{Mechanism: mechanism, Login: FixedLogin("u", password)}).Start(t.Context())
		if err == nil || !errors.Is(err, ErrUnsuitable) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: got %v, want an error without it that is not tried again", mechanism, err)
		}
	}
	away := errors.New("it is away")
	for _, s := range []*SASL{
		{Mechanism: "plain", Login: func(context.Context) (string, string, error) { return "", "", away }},
		{Mechanism: "oauthbearer", Token: func(context.Context) (string, error) { return "", away }},
	} {
		if _, _, err := mechanismOf(t, s).Start(t.Context()); !errors.Is(err, away) || errors.Is(err, ErrUnsuitable) {
			t.Errorf("%s: got %v, want %v, and that it is tried again", s.Mechanism, err, away)
		}
	}
}

// The account is asked for at each connection.
func TestACredentialIsAskedForAtEachConnection(t *testing.T) {
	t.Parallel()
	asked := 0
	m := mechanismOf(t, &SASL{Mechanism: "plain", Login: func(context.Context) (string, string, error) {
		asked++
		return "u", strings.Repeat("p", asked), nil
	}})
	for _, want := range []string{"\x00u\x00p", "\x00u\x00pp"} {
		if _, first, err := m.Start(t.Context()); err != nil || string(first) != want {
			t.Errorf("got %q, %v, want %q", first, err, want)
		}
	}
}

// A signature of AWS is for the broker, with the credentials of the environment,
// and in the region that was set, that the environment names, or that the broker's
// name holds.
func TestMSKSignsForTheBroker(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKID")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hush")
	t.Setenv("AWS_SESSION_TOKEN", "session")
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
	t.Setenv("AWS_DEFAULT_REGION", "")
	const broker = "b-1.jobs.abc123.c2.kafka.us-east-1.amazonaws.com"
	for _, c := range []struct{ env, set, host, want string }{
		{"", "", broker, "us-east-1"},
		{"eu-west-1", "", broker, "eu-west-1"},
		{"eu-west-1", "sa-east-1", broker, "sa-east-1"},
		{"", "", "boot-1.kafka-serverless.eu-central-1.amazonaws.com", "eu-central-1"},
		{"", "", "b-1.jobs.abc123.c2.kafka.cn-north-1.amazonaws.com.cn", "cn-north-1"},
		{"", "", "localhost", ""},
	} {
		t.Setenv("AWS_REGION", c.env)
		m := mechanismOf(t, &SASL{Mechanism: "AWS_MSK_IAM", Region: c.set})
		_, first, err := m.Start(sasl.WithMetadata(t.Context(), &sasl.Metadata{Host: c.host, Port: 9098}))
		if c.want == "" {
			if err == nil || !errors.Is(err, ErrUnsuitable) {
				t.Errorf("%+v: got %v, want an error that is not tried again", c, err)
			}
			continue
		}
		var said map[string]string
		if jerr := json.Unmarshal(first, &said); err != nil || jerr != nil {
			t.Fatalf("%+v: %v, %v", c, err, jerr)
		}
		signed := strings.HasPrefix(said["x-amz-credential"], "AKID/") && strings.Contains(said["x-amz-credential"], "/"+c.want+"/kafka-cluster/")
		if !signed || said["host"] != c.host || said["x-amz-security-token"] != "session" || said["x-amz-signature"] == "" || strings.Contains(string(first), "hush") {
			t.Errorf("%+v: got %v", c, said)
		}
	}
}

// The one declaration serves kgo as well.
func TestKgoTakesTheSameAccount(t *testing.T) {
	t.Parallel()
	users := []kfake.Opt{kfake.EnableSASL(), kfake.NumBrokers(1)}
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		users = append(users, kfake.Superuser(mechanism, "u", "right"))
	}
	cluster, err := kfake.NewCluster(users...)
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	for _, mechanism := range []string{"plain", "scram-sha-256", "scram-sha-512"} {
		for _, password := range []string{"right", "wrong"} {
			m, err := (&SASL{Mechanism: mechanism, Login: FixedLogin("u", password)}).Kgo()
			if err != nil {
				t.Fatal(err)
			}
			client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.SASL(m), kgo.RequestRetries(0))
			if err != nil {
				t.Fatal(err)
			}
			if err = client.Ping(t.Context()); (err == nil) != (password == "right") {
				t.Errorf("%s with the %s password: got %v", mechanism, password, err)
			}
			client.Close()
		}
	}
}
