// Package admin serves the state of a node over HTTP: whether it is alive (/livez), whether it can work and if not why (/readyz),
// its metrics (/metrics), the operators' API (/api/v1) and their page (/).
//
// # What it does not do
//
// It knows no other part of the node: checks, metrics, the API and the page are passed in. Package auth decides who may call. Off
// loopback the server does not start without tokens, unless the settings say insecure.
//
// # How it works
//
// [New] opens the port, so that a port in use is an error at start, and [Server.Addr] is
// known before anything runs. [Server.Run] serves.
//
// /livez answers as long as the process can answer at all: a node without Redis is not
// ready, but a restart would not help. /readyz runs all checks at the same time, with
// two seconds for all of them. It answers 200 or 503 with all checks as JSON. Probes need no token for these two, but get
// neither notes nor errors. The page needs none either, since it holds no data; its script asks for the token.
//
// With a certificate the server speaks HTTPS alone. A rotated certificate is used by the next connection.
//
// # Goroutines
//
// Run starts the HTTP server and waits for it. net/http has a goroutine for each
// connection, and /readyz one for each check, which its handler awaits.
//
// # Failure
//
// When its context ends, Run lets requests finish for a second and then cuts
// them off. If the listener dies, Run returns the error.
package admin
