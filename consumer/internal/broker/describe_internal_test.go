package broker

import (
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"dispatcher/consumer/internal/auth"

	"dispatcher/consumer/internal/topicname"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// metadataAnswer is a broker's answer without its correlation id, as kmsg encodes it.
func metadataAnswer(code int16, id topicname.ID) []byte {
	res := kmsg.NewPtrMetadataResponse()
	res.SetVersion(metadataVersion)
	res.ClusterID = new("a cluster")
	for i := range int32(3) {
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port = i, "broker", 9092
		if i > 0 {
			b.Rack = new("rack")
		}
		res.Brokers = append(res.Brokers, b)
	}
	topic := kmsg.NewMetadataResponseTopic()
	topic.ErrorCode, topic.Topic, topic.TopicID = code, new("jobs"), id
	topic.Partitions = append(topic.Partitions, kmsg.NewMetadataResponseTopicPartition())
	res.Topics = append(res.Topics, topic)
	return res.AppendTo([]byte{0})
}

// decodeTopic decodes the answer to a request of [topicRequest].
func decodeTopic(answer []byte) (TopicState, error) {
	res := kmsg.NewPtrMetadataResponse()
	res.SetVersion(metadataVersion)
	if err := decodeAnswer(res, answer); err != nil {
		return TopicState{}, err
	}
	return readTopic(res)
}

func TestTheTopicIDIsReadFromTheAnswer(t *testing.T) {
	t.Parallel()
	want := topicname.ID{1, 2, 15: 16}
	if got, err := decodeTopic(metadataAnswer(0, want)); err != nil || got.ID != want {
		t.Errorf("got %v and %v, want %v", got, err, want)
	}
	if _, err := decodeTopic(metadataAnswer(3, topicname.ID{})); !errors.Is(err, kafka.UnknownTopicOrPartition) {
		t.Errorf("got error %v, want %v", err, kafka.UnknownTopicOrPartition)
	}
}

func FuzzDecodeTopicID(f *testing.F) {
	full := metadataAnswer(0, topicname.ID{1})
	f.Add(full)
	f.Add(full[:len(full)/2])
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, answer []byte) {
		got, err := decodeTopic(answer)
		if err != nil && got.ID != (topicname.ID{}) {
			t.Errorf("got topic id %v beside error %v, want no id", got.ID, err)
		}
	})
}

// Describe works over TLS and SASL, and more than once.
func TestDescribeOverTLSAndSASL(t *testing.T) {
	t.Parallel()
	web := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	t.Cleanup(web.Close)
	roots := web.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	server := &tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12}
	secret := &auth.SASL{Mechanism: "SCRAM-SHA-256", Login: auth.FixedLogin("u", "right")}
	for name, c := range map[string]struct {
		opts []kfake.Opt
		conn Connection
		err  error
	}{
		"plain":      {},
		"SASL":       {opts: []kfake.Opt{kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "u", "right")}, conn: Connection{SASL: secret}},
		"TLS":        {opts: []kfake.Opt{kfake.TLS(server)}, conn: Connection{TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}},
		"old broker": {opts: []kfake.Opt{kfake.MaxVersions(kversion.V2_4_0())}, err: ErrNoTopicIDs},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, err := kfake.NewCluster(append(c.opts, kfake.NumBrokers(1), kfake.SeedTopics(1, "jobs"))...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(cluster.Close)
			c.conn.Brokers = cluster.ListenAddrs()
			cl, err := NewClient(&c.conn, []string{"jobs"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(cl.Close)
			d := &Describer{Client: cl}
			first, err := d.Describe(t.Context(), "jobs")
			if !errors.Is(err, c.err) || (err == nil) == (first.ID == topicname.ID{}) {
				t.Fatalf("got topic id %x and error %v, want error %v", first.ID, err, c.err)
			}
			if first.Leaders[0] != c.conn.Brokers[0] {
				t.Errorf("got leaders %v, want %s for partition 0", first.Leaders, c.conn.Brokers[0])
			}
			if err != nil {
				return
			}
			if again, err := d.Describe(t.Context(), "jobs"); err != nil || again.ID != first.ID {
				t.Errorf("second call: got topic id %x and error %v, want %x", again.ID, err, first.ID)
			}
			if _, err := d.Describe(t.Context(), "none"); !errors.Is(err, kafka.UnknownTopicOrPartition) {
				t.Errorf("missing topic: got error %v, want %v", err, kafka.UnknownTopicOrPartition)
			}
		})
	}
}
