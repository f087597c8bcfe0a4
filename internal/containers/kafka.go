package containers

import (
	"fmt"
	"testing"
)

// Kafka starts one Apache Kafka 4.1 broker. Its first rebalance does not wait, and a
// request for a topic does not create it.
func Kafka(t testing.TB) *Server {
	t.Helper()
	return kafka(t, currentKafka(), "PLAINTEXT", "")
}

// oauthServer takes unsigned tokens, as Kafka allows for tests.
const oauthServer = `sasl.enabled.mechanisms=OAUTHBEARER
listener.name.client.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";`

// KafkaOAuth starts a broker like [Kafka]'s that demands a token (OAUTHBEARER): a
// JSON Web Token without a signature, whose end it looks at.
func KafkaOAuth(t testing.TB) *Server {
	t.Helper()
	return kafka(t, currentKafka(), "SASL_PLAINTEXT", oauthServer)
}

// KafkaCreating starts a broker like [Kafka]'s that makes topics when they are
// requested, as brokers do by default.
func KafkaCreating(t testing.TB) *Server {
	t.Helper()
	return kafka(t, currentKafka(), "PLAINTEXT", "auto.create.topics.enable=true")
}

// KafkaOld starts one Apache Kafka 3.9 broker, set up like [Kafka]'s.
func KafkaOld(t testing.TB) *Server {
	t.Helper()
	return kafka(t, image("DISPATCHER_TEST_KAFKA_OLD_IMAGE", "apache/kafka:3.9.1"), "PLAINTEXT", "")
}

// KafkaSetOf starts a cluster of that many brokers. Its internal topics have a
// replica on each. A broker whose process has died is cut off after three seconds, not
// nine.
func KafkaSetOf(t testing.TB, brokers int) *KafkaSet {
	t.Helper()
	return kafkaSet(t, currentKafka(), brokers, kafkaOptions{
		heap: "384m", protocol: "PLAINTEXT",
		more: "broker.session.timeout.ms=3000\nbroker.heartbeat.interval.ms=500",
	})
}

func currentKafka() string { return image("DISPATCHER_TEST_KAFKA_IMAGE", "apache/kafka:4.1.1") }

func kafka(t testing.TB, name, protocol, more string) *Server {
	t.Helper()
	k := kafkaSet(t, name, 1, kafkaOptions{heap: "512m", protocol: protocol, more: more})
	return &Server{Addr: k.Addr(1), kafka: k}
}

// KafkaSet is a cluster of Apache Kafka brokers, as processes in one container. Each
// listens on the same port inside and on loopback outside. What a broker has written
// outlives its process. Broker 1 is the controller as well; every other one can be
// stopped and killed without the cluster standing still.
type KafkaSet struct {
	*processes
	kafkaOptions
	ports []int // of the brokers, which count from 1
}

// kafkaOptions are the differences between the clusters.
type kafkaOptions struct {
	heap     string // of the virtual machine, at most
	protocol string // that clients speak; brokers speak PLAINTEXT to one another
	more     string // lines of each broker's configuration
}

// kafkaScript starts one broker in the background. Both the public image and a local one
// have the jars in /opt/kafka/libs. The virtual machine compiles each method once, and quickly: its second compiler took
// two thirds of a core for more than a minute of each test, and what was measured meanwhile was the broker.
const kafkaScript = `cat >/tmp/%[1]d.properties <<P
process.roles=%[3]s
node.id=%[2]d
controller.quorum.voters=1@127.0.0.1:9093
controller.listener.names=CONTROLLER
listeners=CLIENT://0.0.0.0:%[1]d,INTERNAL://127.0.0.1:%[4]d%[5]s
advertised.listeners=CLIENT://127.0.0.1:%[1]d,INTERNAL://127.0.0.1:%[4]d
inter.broker.listener.name=INTERNAL
listener.security.protocol.map=CLIENT:%[7]s,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=/tmp/kafka-%[2]d
num.partitions=1
offsets.topic.replication.factor=%[6]d
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=2
min.insync.replicas=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
%[8]s
P
if [ ! -d /tmp/kafka-%[2]d ]; then
  java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp '/opt/kafka/libs/*' kafka.tools.StorageTool format -t 4L6g3nShT-eMCtK--X86sw -c /tmp/%[1]d.properties >/tmp/%[1]d.log 2>&1 || { cat /tmp/%[1]d.log; exit 1; }
fi
: >/tmp/%[1]d.log
setsid nohup java -Xmx%[9]s -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp '/opt/kafka/libs/*' kafka.Kafka /tmp/%[1]d.properties >>/tmp/%[1]d.log 2>&1 </dev/null &
echo $! >/tmp/%[1]d.pid
`

func kafkaSet(t testing.TB, name string, brokers int, o kafkaOptions) *KafkaSet {
	t.Helper()
	k := &KafkaSet{processes: startProcesses(t, name, brokers, nil), kafkaOptions: o}
	for range brokers {
		k.ports = append(k.ports, k.take())
	}
	for i := range brokers {
		k.launch(i + 1)
	}
	for i := range brokers {
		k.await(i + 1)
	}
	return k
}

// Addr is where clients reach a broker.
func (k *KafkaSet) Addr(broker int) string { return Addr(k.ports[broker-1]) }

// Start runs a broker that was stopped or killed, with the data it has, and
// returns when it serves.
func (k *KafkaSet) Start(broker int) {
	k.t.Helper()
	k.launch(broker)
	k.await(broker)
}

func (k *KafkaSet) launch(broker int) {
	k.t.Helper()
	roles, controller := "broker", ""
	if broker == 1 {
		roles, controller = "broker,controller", ",CONTROLLER://127.0.0.1:9093"
	}
	k.Exec("sh", "-c", fmt.Sprintf(kafkaScript, k.ports[broker-1], broker, roles, 9100+broker, controller, len(k.ports), k.protocol, k.more, k.heap))
}

// await waits until the kernel shows that the broker listens. The published port takes
// connections before, and not every image has a logger.
func (k *KafkaSet) await(broker int) {
	k.t.Helper()
	port := k.ports[broker-1]
	k.Exec("sh", "-c", fmt.Sprintf("i=0; until grep -q ':%04X [0-9A-F:]* 0A ' /proc/net/tcp /proc/net/tcp6; do i=$((i+1)); [ $i -lt 1200 ] || { tail -n 50 %s; exit 1; }; sleep 0.1; done", port, logfile(port)))
}

// Stop ends a broker as an operator does, and returns when its process is gone.
func (k *KafkaSet) Stop(broker int) { k.t.Helper(); k.end(broker, "TERM") }

// Kill ends a broker at once.
func (k *KafkaSet) Kill(broker int) { k.t.Helper(); k.end(broker, "KILL") }

func (k *KafkaSet) end(broker int, signal string) {
	k.t.Helper()
	port := k.ports[broker-1]
	k.signal(port, signal)
	k.Exec("sh", "-c", fmt.Sprintf("p=$(cat %[1]s); i=0; while [ -d /proc/$p ] && ! grep -q 'State:.Z' /proc/$p/status; do i=$((i+1)); [ $i -lt 900 ] || { tail -n 50 %[2]s; exit 1; }; sleep 0.1; done", pidfile(port), logfile(port)))
}
