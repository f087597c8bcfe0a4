package node

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	kgoscram "github.com/twmb/franz-go/pkg/sasl/scram"

	"dispatcher/configs"
	"dispatcher/consumer"
	"dispatcher/throttle"
	"dispatcher/throttle/throttletest"
)

// hold replaces a file that settings refer to, atomically.
func hold(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func configured(t *testing.T, set ...string) configs.Config {
	t.Helper()
	cfg, err := configs.Check(configs.Source{Set: set}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// lines are the connections of a client, which a test can cut.
type lines struct {
	mu   sync.Mutex
	open []net.Conn
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

func (l *lines) over(dial dialFunc) dialFunc {
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err == nil {
			l.mu.Lock()
			l.open = append(l.open, conn)
			l.mu.Unlock()
		}
		return conn, err
	}
}

func (l *lines) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.open {
		_ = c.Close()
	}
	l.open = nil
}

// keeper runs a consumer and hands out its jobs.
type keeper struct {
	lines lines
	c     *consumer.Consumer
	ended chan error
}

func keep(t *testing.T, cfg configs.Config) *keeper {
	t.Helper()
	o, err := consumerOptions(cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	k := &keeper{ended: make(chan error, 1)}
	o.Dial = k.lines.over(o.Dial)
	o.JoinBackoff = 50 * time.Millisecond
	if k.c, err = consumer.New(o); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() { k.ended <- k.c.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-k.ended; err != nil {
			t.Errorf("the consumer ended with %v", err)
		}
	})
	return k
}

// next returns the value of the next job, and settles the job.
func (k *keeper) next(t *testing.T) string {
	t.Helper()
	late := time.After(30 * time.Second)
	for {
		if d := k.c.Take(); d != nil {
			d.Done(consumer.Outcome{})
			return string(d.Job.Value)
		}
		select {
		case <-k.c.Ready():
		case <-late:
			t.Fatalf("no job came; the consumer says %v", k.c.Status().Ready())
		}
	}
}

// operator is a client of the cluster with its own account.
func operator(t *testing.T, brokers []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(brokers...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func produce(t *testing.T, client *kgo.Client, value string) {
	t.Helper()
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "jobs", Value: []byte(value)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// changePassword changes the account's password at the broker.
func changePassword(t *testing.T, client *kgo.Client, user, password string) {
	t.Helper()
	const iterations = 4096
	req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	up := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
	up.Name, up.Mechanism, up.Iterations, up.Salt = user, 1, iterations, []byte("salt-of-the-test")
	var err error
	if up.SaltedPassword, err = pbkdf2.Key(sha256.New, password, up.Salt, iterations, sha256.Size); err != nil {
		t.Fatal(err)
	}
	req.Upsertions = append(req.Upsertions, up)
	res, err := req.RequestWith(t.Context(), client)
	if err != nil || res.Results[0].ErrorCode != 0 {
		t.Fatalf("change the password: %v, %+v", err, res)
	}
}

// When a password changes at the broker and in its file, a running consumer uses the new
// one for its next connections.
func TestAPasswordIsRotatedUnderARunningConsumer(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "jobs"), kfake.EnableSASL(),
		kfake.Superuser("SCRAM-SHA-256", "operator", "own"), kfake.Superuser("SCRAM-SHA-256", "node", "first"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	file := filepath.Join(t.TempDir(), "password")
	hold(t, file, "first\n")
	admin := operator(t, cluster.ListenAddrs(), kgo.SASL(kgoscram.Auth{User: "operator", Pass: "own"}.AsSha256Mechanism()))
	k := keep(t, configured(t,
		"kafka.brokers="+strings.Join(cluster.ListenAddrs(), ","), "kafka.sasl.mechanism=scram-sha-256",
		"kafka.sasl.username=node", "kafka.sasl.password=${file:"+file+"}",
	))
	produce(t, admin, "before")
	if got := k.next(t); got != "before" {
		t.Fatalf("got %s, want the job", got)
	}
	changePassword(t, admin, "node", "second")
	hold(t, file, "second\n")
	k.lines.cut()
	produce(t, admin, "after")
	if got := k.next(t); got != "after" {
		t.Errorf("got %s, want the job that came after the rotation", got)
	}
}

// When Redis's password changes there and in its file, a running limiter uses the new one
// for its next connections.
func TestAPasswordIsRotatedUnderARunningLimiter(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	server.RequireUserAuth("node", "first")
	dir := t.TempDir()
	user, password := filepath.Join(dir, "user"), filepath.Join(dir, "password")
	hold(t, user, "node")
	hold(t, password, "first")
	cfg := configured(t, "redis.addrs="+server.Addr(), "redis.username=${file:"+user+"}", "redis.password=${file:"+password+"}",
		"limits.0.guard=60ms", "limits.0.lateness=50ms") // a way to Redis and back takes long under the race detector
	rdb, err := RedisClient(cfg, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	lim, err := throttle.New(throttle.Options{
		Redis: rdb, Namespace: cfg.Redis.Namespace, Name: "provider", Node: "node", Limit: cfg.Limits[0].Stated(),
		Identity: throttle.IdentityNone,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- lim.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the limiter ended with %v", err)
		}
	}()
	if _, err := throttletest.NextSlot(t.Context(), lim); err != nil {
		t.Fatal(err)
	}
	server.Close() // and all connections with it
	server.RequireUserAuth("node", "")
	server.RequireUserAuth("other", "second")
	hold(t, user, "other")
	hold(t, password, "second")
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	within, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for range 200 { // more than were reserved before
		if _, err := throttletest.NextSlot(within, lim); err != nil {
			t.Fatalf("after the rotation: %v; the limiter says %v", err, lim.State().Ready())
		}
	}
}

// authority signs certificates for a broker on loopback.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	raw, key := a.issue(t, true)
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	a.cert, a.key = cert, key
	return a
}

func (a *authority) issue(t *testing.T, ca bool) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: ca, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ca {
		c.KeyUsage = x509.KeyUsageCertSign
	}
	signer, parent := key, c
	if a.cert != nil {
		signer, parent = a.key, a.cert
	}
	raw, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	return raw, key
}

func pemOf(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// server is a broker's TLS: it shows a certificate of this authority, and accepts only
// clients that show one of it too.
func (a *authority) server(t *testing.T) *tls.Config {
	t.Helper()
	raw, key := a.issue(t, false)
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: key}},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: pool, MinVersion: tls.VersionTLS13,
	}
}

// trust writes a client's files: the authority and a certificate of it.
func (a *authority) trust(t *testing.T, dir string) {
	t.Helper()
	raw, key := a.issue(t, false)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	hold(t, filepath.Join(dir, "ca.pem"), pemOf("CERTIFICATE", a.cert.Raw))
	hold(t, filepath.Join(dir, "cert.pem"), pemOf("CERTIFICATE", raw))
	hold(t, filepath.Join(dir, "key.pem"), pemOf("PRIVATE KEY", der))
}

// When a broker changes its authority, and demands client certificates of the new one, a
// running consumer whose files change as well reconnects.
func TestCertificatesAreRotatedUnderARunningConsumer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var mu sync.Mutex
	first := newAuthority(t)
	first.trust(t, dir)
	inForce := first.server(t)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "jobs"), kfake.TLS(&tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			mu.Lock()
			defer mu.Unlock()
			return inForce, nil
		},
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	cfg := configured(t,
		"kafka.brokers="+strings.Join(cluster.ListenAddrs(), ","), "kafka.tls.enabled=true", "kafka.tls.ca_file="+filepath.Join(dir, "ca.pem"),
		"kafka.tls.cert_file="+filepath.Join(dir, "cert.pem"), "kafka.tls.key_file="+filepath.Join(dir, "key.pem"),
	)
	write := func(value string) {
		conn, err := KafkaConnection(cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		produce(t, operator(t, cluster.ListenAddrs(), kgo.Dialer(conn.Dial)), value)
	}
	k := keep(t, cfg)
	write("before")
	if got := k.next(t); got != "before" {
		t.Fatalf("got %s, want the job", got)
	}
	second := newAuthority(t)
	mu.Lock()
	inForce = second.server(t)
	mu.Unlock()
	second.trust(t, dir)
	k.lines.cut()
	write("after")
	if got := k.next(t); got != "after" {
		t.Errorf("got %s, want the job that came after the rotation", got)
	}
}
