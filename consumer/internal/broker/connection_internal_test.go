package broker

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"dispatcher/consumer/internal/auth"

	"github.com/twmb/franz-go/pkg/kfake"
)

// silentBroker accepts connections, reads all requests and answers none.
type silentBroker struct{ servers []net.Conn }

func (b *silentBroker) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	b.servers = append(b.servers, server)
	go func() { _, _ = io.Copy(io.Discard, server) }()
	return client, nil
}

func (b *silentBroker) close() {
	for _, c := range b.servers {
		_ = c.Close()
	}
}

func plainClient(t *testing.T, dial func(context.Context, string, string) (net.Conn, error)) *Client {
	t.Helper()
	cl, err := NewClient(&Connection{
		Brokers: []string{"localhost:9092"}, Dial: dial, SASL: &auth.SASL{Mechanism: "PLAIN", Login: auth.FixedLogin("u", "right")},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

// With SASL, a broker that accepts connections and answers nothing holds nobody up for longer
// than a dial may take, or than the caller waits.
func TestASilentBrokerHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	ping := func(ctx context.Context, cl *Client) error { return cl.Ping(ctx) }
	request := func(ctx context.Context, cl *Client) error {
		_, err := (&Describer{Client: cl}).Describe(ctx, "jobs")
		return err
	}
	join := func(ctx context.Context, cl *Client) error {
		_, err := cl.Dialer.DialContext(ctx, "tcp", "localhost:9092")
		return err
	}
	for name, c := range map[string]struct {
		open   func(context.Context, *Client) error
		cancel time.Duration // when the caller does not wait any more; 0: it waits
		within time.Duration
		want   error // nil: any
	}{
		"ping":                {open: ping, within: dialTimeout, want: context.DeadlineExceeded},
		"ping, cancelled":     {open: ping, cancel: time.Second, within: time.Second, want: context.Canceled},
		"request":             {open: request, within: dialTimeout, want: context.DeadlineExceeded},
		"request, cancelled":  {open: request, cancel: time.Second, within: time.Second, want: context.Canceled},
		"membership's dialer": {open: join, within: dialTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var silent silentBroker
				cl := plainClient(t, silent.dial)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.cancel > 0 {
					time.AfterFunc(c.cancel, cancel)
				}
				done := make(chan error, 1)
				go func() { done <- c.open(ctx, cl) }()
				time.Sleep(c.within)
				synctest.Wait()
				select {
				case err := <-done:
					if err == nil || c.want != nil && !errors.Is(err, c.want) {
						t.Errorf("got error %v, want %v", err, c.want)
					}
				default:
					t.Errorf("got no answer after %v, want an error", c.within)
				}
				silent.close()
			})
		})
	}
}

// The deadline of a dial does not end a connection that was opened in time.
func TestAConnectionOutlivesTheDeadlineOfItsDial(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var network kfake.VirtualNetwork
		cluster, err := kfake.NewCluster(kfake.ListenFn(network.Listen), kfake.Ports(9092), kfake.NumBrokers(1),
			kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "right"), kfake.SeedTopics(1, "jobs"))
		if err != nil {
			t.Fatal(err)
		}
		defer cluster.Close()
		dials := 0
		cl := plainClient(t, func(ctx context.Context, net, addr string) (net.Conn, error) {
			dials++
			return network.DialContext(ctx, net, addr)
		})
		defer cl.Close()
		conn, err := cl.Dialer.DialContext(t.Context(), "tcp", "localhost:9092")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		d := &Describer{Client: cl}
		for range 2 {
			if _, err := d.Describe(t.Context(), "jobs"); err != nil {
				t.Errorf("describe: got error %v, want none", err)
			}
			if _, err := conn.ReadPartitions("jobs"); err != nil {
				t.Errorf("the membership's connection: got error %v, want none", err)
			}
			time.Sleep(2 * dialTimeout)
		}
		if dials != 2 {
			t.Errorf("got %d connections opened, want 2", dials)
		}
	})
}
