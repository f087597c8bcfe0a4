package containers

import (
	"fmt"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go/wait"
)

// kafkaScript starts a single broker that is its own controller. The
// advertised address is the one the host sees; the broker calls itself, as it
// does for transactions, by another one. Both the public image and a
// local one have the jars in /opt/kafka/libs.
const kafkaScript = `cat >/tmp/server.properties <<P
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:9093
controller.listener.names=CONTROLLER
listeners=CLIENT://0.0.0.0:9092,INTERNAL://127.0.0.1:9094,CONTROLLER://127.0.0.1:9093
advertised.listeners=CLIENT://127.0.0.1:%d,INTERNAL://127.0.0.1:9094
inter.broker.listener.name=INTERNAL
listener.security.protocol.map=CLIENT:%s,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=/tmp/kafka-data
num.partitions=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=2
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
%s
P
if [ ! -d /tmp/kafka-data ]; then
  java -cp '/opt/kafka/libs/*' kafka.tools.StorageTool format -t 4L6g3nShT-eMCtK--X86sw -c /tmp/server.properties || exit 1
fi
exec java -Xmx512m -cp '/opt/kafka/libs/*' kafka.Kafka /tmp/server.properties
`

// Kafka starts one Apache Kafka 4.1 broker. Its first rebalance does not wait, and a
// request for a topic does not create it.
func Kafka(t testing.TB) *Server {
	t.Helper()
	return kafka(t, image("DISPATCHER_TEST_KAFKA_IMAGE", "apache/kafka:4.1.1"), "PLAINTEXT", "")
}

// oauthServer takes unsigned tokens, as Kafka allows for tests.
const oauthServer = `sasl.enabled.mechanisms=OAUTHBEARER
listener.name.client.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";`

// KafkaOAuth starts a broker like [Kafka]'s that demands a token (OAUTHBEARER): a
// JSON Web Token without a signature, whose end it looks at.
func KafkaOAuth(t testing.TB) *Server {
	t.Helper()
	return kafka(t, image("DISPATCHER_TEST_KAFKA_IMAGE", "apache/kafka:4.1.1"), "SASL_PLAINTEXT", oauthServer)
}

// KafkaCreating starts a broker like [Kafka]'s that makes topics when they are
// requested, as brokers do by default.
func KafkaCreating(t testing.TB) *Server {
	t.Helper()
	return kafka(t, image("DISPATCHER_TEST_KAFKA_IMAGE", "apache/kafka:4.1.1"), "PLAINTEXT", "auto.create.topics.enable=true")
}

// KafkaOld starts one Apache Kafka 3.9 broker, set up like [Kafka]'s.
func KafkaOld(t testing.TB) *Server {
	t.Helper()
	return kafka(t, image("DISPATCHER_TEST_KAFKA_OLD_IMAGE", "apache/kafka:3.9.1"), "PLAINTEXT", "")
}

func kafka(t testing.TB, name, protocol, more string) *Server {
	t.Helper()
	host := freePort(t)
	return start(t, spec{
		image: name,
		port:  9092,
		host:  host,
		entry: []string{"sh", "-c", fmt.Sprintf(kafkaScript, host, protocol, more)},
		ready: wait.ForListeningPort("9092/tcp").WithStartupTimeout(2 * time.Minute),
	})
}
