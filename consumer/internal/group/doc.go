// Package group is a node's membership in the group of one topic: join, assignment, drain,
// commit, and the reset of offsets when the topic is deleted and created again.
//
// Each generation of the group makes one assignment, which runs these goroutines and returns
// after the last of them:
//
//	watch         ends the deliveries' context when the generation or the node ends
//	begin         starts each partition once its start offset is known
//	fetcher       of package fetch
//	RunDiverted   of package settle: writes the records of diverted jobs
//	watchTopic    asks each second for the topic's id, its leaders and the number of partitions
//
// The goroutine of the generation commits at an interval. When the assignment ends, it or watch
// drops the jobs that were not handed out. It awaits calls in flight for the drain at most, and commits once
// more. A later commit would move an offset that belongs to another member, so no offset is
// completed after [schedule.Assignment.Close].
//
// Failure: a commit that fails is tried again at the next interval. While no broker answers,
// the last commit is tried until one does: no member can take over meanwhile. A commit whose
// answer says that the group has moved on ends the assignment at once.
//
// # Reasons
//
// No broker answers. kafka-go takes the first heartbeat that fails for the end of the
// generation, within a second. Calls that end later can't be committed. So the last commit
// goes on until a broker answers or the node stops, and the generation is not given back
// before. The member is then still the one that the group knows: the commit is taken, the join
// does not wait for members that are gone, and nothing is repeated. If the generation were
// given back at once, kafka-go would join, fail and forget its member id, and the group would
// wait a whole session for the old one. When a node that alone was cut off returns, Kafka refuses its
// commit, which names an earlier generation. Where there is nothing to commit, a heartbeat asks instead.
//
// A topic is recreated. Offsets alone can't show that: the new log seems to fit as soon as it
// has grown beyond the reached offset, and its first jobs would never be sent. The topic's id
// shows it; kafka-go's Metadata ends before ids, so kmsg asks (version 10). No partition
// begins before the first answer. An assignment asks each second, and once more between its
// end and its last commit. If the id is another one, it commits only where the group begins in the new
// log (its beginning; with out_of_range latest its end), and joins again. That overwrites what was committed into the new topic before
// anyone looked. With out_of_range stop the node ends instead. What remains: a node that is killed in that second after it has committed;
// jobs of the new topic that were called in it may be called again; brokers before 2.8 have no
// ids. Kafka drops a group's offsets with the topic, so a recreated topic begins at its first
// record otherwise.
//
// A topic is gone. The member keeps its generation until the topic exists, and /readyz and the
// log say so. The topic's id ends the generation then.
//
// Partitions are added, or the coordinator's answer was stale. The leader assigns the partitions
// that the coordinator knows, and kafka-go takes an unknown topic for one without partitions. Its
// own watch compares later answers with a second one, and misses a change between the two. So
// the leader keeps the number that it assigned. It ends its generation once the topic has had
// another number for five seconds: a broker may learn of it a little later than another one.
// When the leader joins again, the group assigns all partitions once more.
//
// A killed node returns. A join has all members join again, and the coordinator waits for
// those it still knows until their session is over. So the whole fleet would stand still for a
// session, not only the dead node's partitions. Static membership is not in kafka-go. So a
// node that finds a member with its own name waits until that is gone, a session at most. A
// node with a new name looks like an added one, and joins at once.
package group
