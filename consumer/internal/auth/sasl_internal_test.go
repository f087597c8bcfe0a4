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
		t.Errorf("after an empty challenge: got done %t, response %q, error %v, want done and no response", done, response, err)
	}
}

// A broker that refuses the token sends the reason, gets \x01 (RFC 7628, 3.2.3), and ends the
// exchange.
func TestOAuthBearerAnswersARefusal(t *testing.T) {
	t.Parallel()
	state, _, err := mechanismOf(t, tokenSASL("token", nil)).Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	done, response, err := state.Next(t.Context(), []byte(`{"status":"invalid_token"}`))
	if done || string(response) != "\x01" || err != nil {
		t.Errorf("got done %t, response %q, error %v, want the response %q", done, response, err, "\x01")
	}
	if done, _, err := state.Next(t.Context(), nil); done || err == nil {
		t.Errorf("second challenge: got done %t, error %v, want an error", done, err)
	}
}

// What can't be a token is never sent: it could end the field that it is in.
func TestNoTokenLeavesItsField(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"", "hush\x01auth=Bearer x", "hush hush", "hush\n", "=hush", strings.Repeat("h", maxTokenBytes+1)} {
		_, _, err := mechanismOf(t, tokenSASL(token, nil)).Start(t.Context())
		if err == nil || !errors.Is(err, ErrUnsuitable) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%.20q: got error %v, want %v without the token", token, err, ErrUnsuitable)
		}
	}
}

// The error about a user name or password that a mechanism can't carry does not quote it, and
// says that a retry is no use. An error of Login or Token may pass.
func TestCredentialsThatAMechanismCannotCarry(t *testing.T) {
	t.Parallel()
	for mechanism, password := range map[string]string{"plain": "hush\x00", "scram-sha-256": "hush\x07", "scram-sha-512": "hush\x07"} {
		_, _, err := mechanismOf(t, &SASL{Mechanism: mechanism, Login: FixedLogin("u", password)}).Start(t.Context())
		if err == nil || !errors.Is(err, ErrUnsuitable) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: got error %v, want %v without the password", mechanism, err, ErrUnsuitable)
		}
	}
	away := errors.New("it is away")
	for _, s := range []*SASL{
		{Mechanism: "plain", Login: func(context.Context) (string, string, error) { return "", "", away }},
		{Mechanism: "oauthbearer", Token: func(context.Context) (string, error) { return "", away }},
	} {
		if _, _, err := mechanismOf(t, s).Start(t.Context()); !errors.Is(err, away) || errors.Is(err, ErrUnsuitable) {
			t.Errorf("%s: got error %v, want %v and not %v", s.Mechanism, err, away, ErrUnsuitable)
		}
	}
}

func TestEachConnectionReadsTheCredentialAgain(t *testing.T) {
	t.Parallel()
	calls := 0
	m := mechanismOf(t, &SASL{Mechanism: "plain", Login: func(context.Context) (string, string, error) {
		calls++
		return "u", strings.Repeat("p", calls), nil
	}})
	for _, want := range []string{"\x00u\x00p", "\x00u\x00pp"} {
		if _, first, err := m.Start(t.Context()); err != nil || string(first) != want {
			t.Errorf("got %q, %v, want %q", first, err, want)
		}
	}
}

// The signature is for the broker's host, with the credentials of the environment. The region
// comes from the options, else from the environment, else from the broker's name.
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
				t.Errorf("%+v: got error %v, want %v", c, err, ErrUnsuitable)
			}
			continue
		}
		var got map[string]string
		if jerr := json.Unmarshal(first, &got); err != nil || jerr != nil {
			t.Fatalf("%+v: %v, %v", c, err, jerr)
		}
		signed := strings.HasPrefix(got["x-amz-credential"], "AKID/") && strings.Contains(got["x-amz-credential"], "/"+c.want+"/kafka-cluster/")
		if !signed || got["host"] != c.host || got["x-amz-security-token"] != "session" || got["x-amz-signature"] == "" || strings.Contains(string(first), "hush") {
			t.Errorf("%+v: got %v, want a signature for that host and region", c, got)
		}
	}
}

// The same SASL value works for kgo.
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
				t.Errorf("%s with the %s password: got error %v", mechanism, password, err)
			}
			client.Close()
		}
	}
}
