// Package dlq is an operator's way to the dead letters: [Client] lists them and settles each
// by replaying or dropping it. The consumer itself never reads them.
//
// Kafka remembers which letters are settled, as it does for jobs: by the committed offset of
// the group <group>.<topic>.dlq and the completed-offset bitmap in its metadata. A command
// that settles holds the group's membership alone, with all partitions; others wait for that.
// So reading and writing back what is settled is one step.
//
// Package deadletter says what a letter holds.
//
// Goroutines: a command that settles starts one, which follows the generations of its group
// and ends with the command.
package dlq
