// Package integration tests the built binary against real Apache Kafka and real
// Redis in containers, with several node processes, faults, and a simulated
// provider in a process of its own that stamps arrivals and judges.
//
// A run in which the machine held up the judge in more than a tenth of the
// windows says little. It is made again, at most three times in all, and then
// fails. Before a measured run the tests wait until the machine is quiet.
package integration
