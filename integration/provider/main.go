// Command provider runs the simulated provider in a process of its own, so that
// what it judges can't hold it up. It prints its addresses, and with TLS the
// authority's certificate, as one line of JSON
// and ends on SIGINT or SIGTERM.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"dispatcher/internal/provider"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "provider:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("provider", flag.ContinueOnError)
	var o provider.Options
	fs.StringVar(&o.Address, "listen", "127.0.0.1:0", "where calls arrive, host:port")
	fs.DurationVar(&o.Behaviour.Latency, "latency", 0, "before each answer")
	fs.DurationVar(&o.Behaviour.Jitter, "jitter", 0, "up to this much more before each answer")
	fs.DurationVar(&o.Guard, "guard", provider.DefaultGuard, "a stall of the judge longer than this leaves its windows unjudged")
	scripted := fs.Bool("script", false, "answer by the idempotency key, as script.go says; of the behaviour only the latency holds")
	handshake := fs.Duration("handshake", 0, "talk TLS, each handshake of which takes at least so long; 0: plain HTTP")
	fs.BoolVar(&o.OneCall, "one-call", false, "close each connection with its answer")
	control := fs.String("control", "127.0.0.1:0", "where the control endpoints are, host:port on the loopback")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if err := errors.Join(o.Behaviour.Validate(), loopback(*control)); err != nil {
		return err
	}
	var ca []byte
	if *handshake > 0 {
		slow, err := provider.NewSlowTLS(*handshake)
		if err != nil {
			return err
		}
		o.Listen, ca = slow.Listen, slow.CA
	}
	if !*scripted {
		p := provider.New(o)
		return serve(ctx, p, provider.Control(p), *control, ca)
	}
	sc := newScript(o.Behaviour.Latency)
	o.Answer = sc.answer
	p := provider.New(o)
	return serve(ctx, p, sc.control(provider.Control(p)), *control, ca)
}

// loopback refuses other addresses: whoever reaches the control can take the
// provider down.
func loopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("-control: %q is not host:port", address)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("-control: %q is not on the loopback", address)
	}
	return nil
}

func serve(ctx context.Context, p *provider.Provider, handler http.Handler, control string, ca []byte) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", control)
	if err != nil {
		return fmt.Errorf("control: %w", err)
	}
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	defer srv.Close() //nolint:errcheck // the process ends
	if err := p.Up(ctx); err != nil {
		return err
	}
	err = json.NewEncoder(os.Stdout).Encode(map[string]string{"provider": p.Addr(), "control": l.Addr().String(), "ca": string(ca)})
	if err != nil {
		return fmt.Errorf("print the addresses: %w", err)
	}
	running, cancel := context.WithCancelCause(ctx)
	go func() { cancel(srv.Serve(l)) }() // ends at srv.Close
	if err := p.Run(running); err != nil || ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("control: %w", context.Cause(running))
}
