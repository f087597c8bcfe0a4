package node

import (
	"context"
	"fmt"
	"log/slog"
	"net"

	"dispatcher/configs"
	"dispatcher/consumer"
	"dispatcher/internal/credentials"
	"dispatcher/internal/tlsfiles"
)

// This file maps the credentials of the configuration to functions that are called at
// each new connection.

// login returns the account of two settings as it is now: it may stand in files that change.
type login func(ctx context.Context) (username, password string, err error)

func accountOf(cfg configs.Config, log *slog.Logger, at, username, password string) login {
	user := credentials.NewText(at+".username", username, cfg.Reread(at+".username"), log)
	secret := credentials.NewText(at+".password", password, cfg.Reread(at+".password"), log)
	return func(context.Context) (string, string, error) { return user.Now(), secret.Now(), nil }
}

// saslOf is how a node authenticates to Kafka; nil: it does not.
func saslOf(cfg configs.Config, log *slog.Logger) (*consumer.SASL, error) {
	s := cfg.Kafka.SASL
	if s.Mechanism == "" {
		return nil, nil
	}
	token, err := tokenOf(cfg, log)
	if err != nil {
		return nil, err
	}
	return &consumer.SASL{
		Mechanism: s.Mechanism, Login: accountOf(cfg, log, "kafka.sasl", s.Username, s.Password),
		Token: token, Extensions: s.OAuth.ExtensionsByName(), Region: s.AWS.Region,
	}, nil
}

func tokenOf(cfg configs.Config, log *slog.Logger) (func(context.Context) (string, error), error) {
	const at = "kafka.sasl.oauth."
	o := cfg.Kafka.SASL.OAuth
	if o.TokenURL == "" {
		token := credentials.NewText(at+"token", o.Token, cfg.Reread(at+"token"), log)
		return func(context.Context) (string, error) { return token.Now(), nil }, nil
	}
	files, err := tlsfiles.Settings{Enabled: true, CAFile: o.CAFile}.Open(log)
	if err != nil {
		return nil, fmt.Errorf("%s%w", at, err)
	}
	secret := credentials.NewText(at+"client_secret", o.ClientSecret, cfg.Reread(at+"client_secret"), log)
	return credentials.NewTokens(credentials.Endpoint{
		URL: o.TokenURL, ClientID: o.ClientID, Secret: secret.Now, Scopes: o.Scopes, Audience: o.Audience,
		Transport: credentials.OverTLS(files.Config), Log: log,
	}).Token, nil
}

// dialOf opens connections with TLS by the files as they are at that moment; nil:
// without TLS.
func dialOf(at string, t tlsfiles.Settings, log *slog.Logger) (tlsfiles.DialFunc, error) {
	files, err := t.Open(log)
	if err != nil {
		return nil, fmt.Errorf("%s.%w", at, err)
	}
	if files == nil {
		return nil, nil
	}
	return files.Dial(new(net.Dialer).DialContext), nil
}
