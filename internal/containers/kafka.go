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
listeners=PLAINTEXT://0.0.0.0:9092,INTERNAL://127.0.0.1:9094,CONTROLLER://127.0.0.1:9093
advertised.listeners=PLAINTEXT://127.0.0.1:%d,INTERNAL://127.0.0.1:9094
inter.broker.listener.name=INTERNAL
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=/tmp/kafka-data
num.partitions=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=2
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=%t
P
if [ ! -d /tmp/kafka-data ]; then
  java -cp '/opt/kafka/libs/*' kafka.tools.StorageTool format -t 4L6g3nShT-eMCtK--X86sw -c /tmp/server.properties || exit 1
fi
exec java -Xmx512m -cp '/opt/kafka/libs/*' kafka.Kafka /tmp/server.properties
`

// Kafka starts one Apache Kafka 4.1 broker. Its first rebalance does not wait,
// and topics are not made by asking for them.
func Kafka(t testing.TB) *Server {
	t.Helper()
	return kafka(t, image("DISPATCHER_TEST_KAFKA_IMAGE", "apache/kafka:4.1.1"), false)
}

// KafkaCreating starts a broker like [Kafka]'s that makes topics when they are
// asked for, as brokers do unless they are told otherwise.
func KafkaCreating(t testing.TB) *Server {
	t.Helper()
	return kafka(t, image("DISPATCHER_TEST_KAFKA_IMAGE", "apache/kafka:4.1.1"), true)
}

// KafkaOld starts one Apache Kafka 3.9 broker, set up like [Kafka]'s.
func KafkaOld(t testing.TB) *Server {
	t.Helper()
	return kafka(t, image("DISPATCHER_TEST_KAFKA_OLD_IMAGE", "apache/kafka:3.9.1"), false)
}

func kafka(t testing.TB, name string, creates bool) *Server {
	t.Helper()
	host := freePort(t)
	return start(t, spec{
		image: name,
		port:  9092,
		host:  host,
		entry: []string{"sh", "-c", fmt.Sprintf(kafkaScript, host, creates)},
		ready: wait.ForListeningPort("9092/tcp").WithStartupTimeout(2 * time.Minute),
	})
}
