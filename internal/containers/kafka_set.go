package containers

import (
	"fmt"
	"testing"
)

// KafkaSet is a cluster of Apache Kafka 4.1 brokers, as processes in one
// container. Each listens on the same port inside and on loopback outside. What a
// broker has written outlives its process. Broker 1 is the controller as well;
// every other one can be stopped and killed without the cluster standing still.
type KafkaSet struct {
	*processes
	ports  []int // of the brokers, which count from 1
	quorum int
}

// kafkaSetScript starts one broker in the background. A broker whose process has
// died is cut off after three seconds, not nine.
const kafkaSetScript = `cat >/tmp/%[1]d.properties <<P
process.roles=%[3]s
node.id=%[2]d
controller.quorum.voters=1@127.0.0.1:%[4]d
controller.listener.names=CONTROLLER
listeners=%[5]s
advertised.listeners=PLAINTEXT://127.0.0.1:%[1]d
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=/tmp/kafka-%[2]d
offsets.topic.replication.factor=%[6]d
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=2
min.insync.replicas=1
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
P
if [ ! -d /tmp/kafka-%[2]d ]; then
  java -cp '/opt/kafka/libs/*' kafka.tools.StorageTool format -t 4L6g3nShT-eMCtK--X86sw -c /tmp/%[1]d.properties >/tmp/%[1]d.log 2>&1 || { cat /tmp/%[1]d.log; exit 1; }
fi
: >/tmp/%[1]d.log
setsid nohup java -Xmx384m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp '/opt/kafka/libs/*' kafka.Kafka /tmp/%[1]d.properties >>/tmp/%[1]d.log 2>&1 </dev/null &
echo $! >/tmp/%[1]d.pid
`

// KafkaSetOf starts a cluster of that many brokers. Its internal topics have a
// replica on each.
func KafkaSetOf(t testing.TB, brokers int) *KafkaSet {
	t.Helper()
	k := &KafkaSet{processes: startProcesses(t, image("DISPATCHER_TEST_KAFKA_IMAGE", "apache/kafka:4.1.1"), brokers+1, nil)}
	k.quorum = k.take()
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
	port := k.ports[broker-1]
	roles, listeners := "broker", fmt.Sprintf("PLAINTEXT://0.0.0.0:%d", port)
	if broker == 1 {
		roles, listeners = "broker,controller", fmt.Sprintf("%s,CONTROLLER://127.0.0.1:%d", listeners, k.quorum)
	}
	k.Exec("sh", "-c", fmt.Sprintf(kafkaSetScript, port, broker, roles, k.quorum, listeners, len(k.ports)))
}

// await waits until the kernel shows that the broker listens. The published port takes
// connections before, and not every image has a logger.
func (k *KafkaSet) await(broker int) {
	k.t.Helper()
	port := k.ports[broker-1]
	k.Exec("sh", "-c", fmt.Sprintf("i=0; until grep -q ':%04X [0-9A-F:]* 0A ' /proc/net/tcp /proc/net/tcp6; do i=$((i+1)); [ $i -lt 600 ] || { tail -n 50 %s; exit 1; }; sleep 0.1; done", port, logfile(port)))
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
