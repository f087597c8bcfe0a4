// Package api serves /api/v1: operators read the limits and change them, as `dispatcher limit` does, on any node. They also list
// dead letters, and have them replayed or dropped in the background.
//
// # What it does not do
//
// It holds no state: Redis has all of it, and package throttle/control makes each change. It carries out no redrive:
// package redrive does, and the request is answered once Redis has it. It does not decide who may call:
// package auth does, before a request comes here. The history has the name of the caller's token.
//
// # How it works
//
// Answers are the documents of package limits, which `dispatcher limit --json` prints as well. An error is a problem (RFC 9457)
// with the faults: field, value and remedy. A PATCH must name the revision that it is meant for in If-Match, and so must
// an undo of the last change. So of two operators the slower one learns of the other's change.
//
// The file openapi.yaml describes all requests and answers, and is served as JSON. The tests compare each answer that they get with
// it.
//
// A page of another origin can change nothing: [http.CrossOriginProtection] refuses it.
//
// # Who owns which goroutine
//
// Net/http runs a handler on the goroutine of its connection. Pages that are open share a reading of the fleet's state, which runs
// on a goroutine of its own and ends within five seconds.
//
// # Failure
//
// Redis has five seconds for all that a request asks it, and for one answer as long as the client that the owner gives waits; then
// the answer is 503. A change that Redis may have made then says so. At most [maxRequests] requests are served at once, and a body has
// at most [maxBody] bytes. No answer holds a value of a limit's key, only its hash.
// No answer holds a dead letter's key or payload, nor the provider's answer to it. A list of dead letters reads Kafka for four seconds
// at most, and two such lists are made at once.
package api
