package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"dispatcher/admin"
	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/configs"
)

func newHealthCheckCommand(s *cli.Settings) *cobra.Command {
	var ready bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "healthcheck",
		Short: "Ask the node of this host whether it lives",
		Long: "Ask the node of this host, at admin.listen, whether it lives, or with --ready whether it can send jobs. It is\n" +
			"for images without a shell. It needs the configuration that the node has.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			src := s.Source
			src.OnlyShown = true // a secret that is not there any more does not concern a node that runs
			cfg, err := configs.Load(src)
			if err != nil {
				return fmt.Errorf("config:\n%w", err)
			}
			path := "/livez"
			if ready {
				path = "/readyz"
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			if err := askHealth(ctx, cfg.Admin, path); err != nil {
				return fmt.Errorf("healthcheck: %w", err)
			}
			return cli.PrintLine(cmd.OutOrStdout(), "ok")
		},
	}
	cmd.Flags().BoolVar(&ready, "ready", false, "ask /readyz, which also asks Kafka, Redis and the provider's breaker")
	cmd.Flags().DurationVar(&timeout, "timeout", 4*time.Second, "how long to wait for the answer; /readyz takes up to two seconds")
	return cmd
}

// askHealth returns nil if the admin server of this host answers a path with 200.
func askHealth(ctx context.Context, c admin.Config, path string) error {
	host, err := healthHost(c.Listen)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true} // and no proxy: it asks its own host
	scheme := "http"
	if c.TLS.Enabled() {
		scheme = "https"
		if transport.TLSClientConfig, err = ownCertificate(c.TLS.CertFile, c.TLS.KeyFile); err != nil {
			return err
		}
	}
	url := scheme + "://" + host + path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return fmt.Errorf("no answer: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	return fmt.Errorf("%s: status %d%s", url, resp.StatusCode, failing(io.LimitReader(resp.Body, 1<<16)))
}

// healthHost is where to ask a server that listens there. One that listens on all networks is asked on loopback.
func healthHost(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	switch {
	case listen == "":
		return "", errors.New("admin.listen is empty: the node has no admin server to ask")
	case err != nil:
		return "", fmt.Errorf("admin.listen: %w", err)
	case port == "0":
		return "", fmt.Errorf("admin.listen: %q: the node picks a free port: set one that is known", listen)
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() && ip.Is4() {
		host = "127.0.0.1"
	} else if err == nil && ip.IsUnspecified() {
		host = "::1"
	}
	return net.JoinHostPort(host, port), nil
}

// ownCertificate demands the certificate of the node's file. Its name is not that of loopback, so no authority can be asked.
func ownCertificate(certFile, keyFile string) (*tls.Config, error) {
	own, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("admin.tls: %w", err)
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // VerifyConnection compares instead
		VerifyConnection: func(state tls.ConnectionState) error {
			if !bytes.Equal(state.PeerCertificates[0].Raw, own.Certificate[0]) {
				return fmt.Errorf("the server has another certificate than admin.tls.cert_file: %s", certFile)
			}
			return nil
		},
	}, nil
}

// failing names the checks of /readyz that failed, with the reasons that the server gives.
func failing(body io.Reader) string {
	var answer struct {
		Checks []struct {
			Name  string
			OK    bool
			Error string
		}
	}
	if json.NewDecoder(body).Decode(&answer) != nil {
		return ""
	}
	var failed []string
	for _, c := range answer.Checks {
		switch {
		case c.OK:
		case c.Error != "":
			failed = append(failed, c.Name+" ("+cli.Plainly(c.Error, 200)+")")
		default:
			failed = append(failed, c.Name)
		}
	}
	if len(failed) == 0 {
		return ""
	}
	return ", not ready: " + strings.Join(failed, ", ")
}
