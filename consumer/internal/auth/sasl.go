package auth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"dispatcher/internal/fault"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
	kgosasl "github.com/twmb/franz-go/pkg/sasl"
)

// SASL is the account of a client. Each new connection calls Login or Token, so a changed
// credential is used from then on. The functions may be called from several goroutines. Their
// errors must not hold a credential.
type SASL struct {
	Mechanism string // plain, scram-sha-256, scram-sha-512, oauthbearer or aws_msk_iam

	// Login returns the user name and the password, for plain and SCRAM.
	Login func(ctx context.Context) (username, password string, err error)

	// Token returns the token, for oauthbearer.
	Token func(ctx context.Context) (string, error)
	// Extensions are sent with the token. A name has only letters.
	Extensions map[string]string

	// Region is the region of the MSK cluster, for aws_msk_iam. Empty: the region in the
	// environment or the profile, else the one in the broker's name. AWS's SDK finds the
	// credentials in its usual places.
	Region string
}

// FixedLogin is a [SASL.Login] that never changes.
func FixedLogin(username, password string) func(context.Context) (string, string, error) {
	return func(context.Context) (string, string, error) { return username, password, nil }
}

// String names the mechanism, and nothing else.
func (s SASL) String() string { return s.Mechanism }

// GoString names the mechanism, and nothing else.
func (s SASL) GoString() string { return s.String() }

// credentialTimeout bounds how long a credential may take at a connection of kgo. kafka-go's
// connections have the same bound.
const credentialTimeout = 3 * time.Second

// ErrUnsuitable says that the mechanism can't carry the credential.
var ErrUnsuitable = errors.New("the credential does not suit the mechanism")

// Validate returns an error if the fields make no mechanism.
func (s *SASL) Validate() error {
	_, err := s.KafkaGo()
	return err
}

// KafkaGo returns the mechanism for kafka-go.
func (s *SASL) KafkaGo() (sasl.Mechanism, error) {
	switch strings.ToLower(s.Mechanism) {
	case saslPlain:
		return s.withLogin("PLAIN", func(username, password string) (sasl.Mechanism, error) {
			if strings.ContainsRune(username+password, 0) {
				return nil, fmt.Errorf("%w: the user name or the password holds a NUL", ErrUnsuitable)
			}
			return plain.Mechanism{Username: username, Password: password}, nil
		})
	case saslSCRAM256:
		return s.withLogin(scram.SHA256.Name(), scramWith(scram.SHA256))
	case saslSCRAM512:
		return s.withLogin(scram.SHA512.Name(), scramWith(scram.SHA512))
	case saslOAuth:
		return s.withToken()
	case saslAWS:
		return newMSK(s.Region), nil
	}
	return nil, fault.New("sasl.mechanism", s.Mechanism, "must be plain, scram-sha-256, scram-sha-512, oauthbearer or aws_msk_iam")
}

// Kgo returns the same mechanism for kgo.
func (s *SASL) Kgo() (kgosasl.Mechanism, error) {
	m, err := s.KafkaGo()
	if err != nil {
		return nil, err
	}
	return kgoMechanism{m}, nil
}

func (s *SASL) withLogin(name string, with func(username, password string) (sasl.Mechanism, error)) (sasl.Mechanism, error) {
	if s.Login == nil {
		return nil, fault.New("sasl.login", fault.Phrase("nil"), "the mechanism "+s.Mechanism+" needs a user name and a password")
	}
	return perConnection{name, func(ctx context.Context) (sasl.Mechanism, error) {
		username, password, err := s.Login(ctx)
		if err != nil {
			return nil, fmt.Errorf("sasl: user name and password: %w", err)
		}
		return with(username, password)
	}}, nil
}

func (s *SASL) withToken() (sasl.Mechanism, error) {
	if s.Token == nil {
		return nil, fault.New("sasl.token", fault.Phrase("nil"), "the mechanism "+s.Mechanism+" needs a token")
	}
	if err := checkExtensions(s.Extensions); err != nil {
		return nil, err
	}
	return perConnection{oauthName, func(ctx context.Context) (sasl.Mechanism, error) {
		token, err := s.Token(ctx)
		if err != nil {
			return nil, fmt.Errorf("sasl: token: %w", err)
		}
		return newOAuthBearer(token, s.Extensions)
	}}, nil
}

// scramWith replaces the library's error about a user name or password, since it may quote
// them.
func scramWith(algorithm scram.Algorithm) func(username, password string) (sasl.Mechanism, error) {
	return func(username, password string) (sasl.Mechanism, error) {
		m, err := scram.Mechanism(algorithm, username, password)
		if err != nil {
			return nil, fmt.Errorf("%w: the user name or the password holds characters that SCRAM forbids", ErrUnsuitable)
		}
		return m, nil
	}
}

// perConnection is a mechanism that each connection makes with the credential of that time.
type perConnection struct {
	name string
	make func(ctx context.Context) (sasl.Mechanism, error)
}

func (p perConnection) Name() string { return p.name }

func (p perConnection) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	m, err := p.make(ctx)
	if err != nil {
		return nil, nil, err
	}
	return m.Start(ctx)
}

// kgoMechanism adapts a mechanism of kafka-go to kgo.
type kgoMechanism struct{ sasl.Mechanism }

// Authenticate implements kgo's mechanism. It bounds the time that a credential may take,
// since kgo's context does not.
func (m kgoMechanism) Authenticate(ctx context.Context, broker string) (kgosasl.Session, []byte, error) {
	host, _, err := net.SplitHostPort(broker)
	if err != nil {
		return nil, nil, fmt.Errorf("sasl: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, credentialTimeout)
	defer cancel()
	state, first, err := m.Start(sasl.WithMetadata(ctx, &sasl.Metadata{Host: host})) // no mechanism needs the port
	return kgoSession{state}, first, err
}

type kgoSession struct{ state sasl.StateMachine }

// Challenge needs no context: no mechanism waits in the middle of an exchange.
func (s kgoSession) Challenge(challenge []byte) (done bool, response []byte, err error) {
	done, response, err = s.state.Next(context.Background(), challenge)
	if done {
		response = nil // kafka-go does not send a last response either
	}
	return done, response, err
}
