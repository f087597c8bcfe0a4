// Package admin serves what people and machines ask a node over HTTP: whether it
// is alive (/livez), whether it can work and if not why (/readyz), and its
// metrics (/metrics).
//
// It changes nothing and knows no other room: checks and metrics are passed in.
// It does not authenticate anyone, so it listens on loopback unless told
// otherwise, and says so in the log when it doesn't.
//
// # How it works
//
// [New] takes the port, so that a port that is taken is an error at start and
// [Server.Addr] is known before anything runs. [Server.Run] serves.
//
// /livez answers as long as the process can answer at all: a node whose Redis is
// away is not ready, but to restart it would help nobody. /readyz asks every
// check at the same time, gives them two seconds together and answers 200 or 503,
// with all checks as JSON either way.
//
// # Goroutines
//
// Run starts the HTTP server and waits for it. Each connection has a goroutine
// of net/http's, and /readyz one for each check, which its handler awaits.
//
// # Failure
//
// When its context ends, Run lets requests finish for a second and then cuts
// them off. If the listener dies, Run returns the error.
package admin
