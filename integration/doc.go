// Package integration tests the built binary against real Apache Kafka and real
// Redis in containers, with several node processes, faults, and a simulated
// provider in a process of its own that stamps arrivals and judges.
//
// The kernel says when each call came, so a judge that is held up judges all windows.
// Where it does not (TLS, other systems), a run with more than a tenth of the windows
// unjudged is made again, at most three times in all, and then fails. So is a run that
// misses a figure while the machine holds up more than a tenth of the windows. Before a
// measured run the tests wait until the machine is quiet.
package integration
