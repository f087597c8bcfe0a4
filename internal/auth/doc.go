// Package auth decides who may call the admin server.
//
// A [Guard] stands before a handler, in one of three ways:
//
//   - with tokens, a request must have Authorization: Bearer TOKEN. A viewer may only read (GET and HEAD); an operator may do all.
//     The handler learns who calls by [From].
//   - without tokens on loopback, a request may do all, but only under a loopback host name. A page that points its own name to
//     loopback is refused (DNS rebinding).
//   - without tokens off loopback, a request may do all. Package admin asks for insecure: true before it uses this.
//
// # What it does not do
//
// It does not encrypt: without TLS whoever reads the network reads the tokens. It knows nothing of other origins; the API refuses
// those. It does not read a token from the configuration itself, only from a file.
//
// # How it works
//
// Each token is a file with one word of 16 to 1024 visible ASCII characters. The SHA-256 sums of all tokens are compared with the
// request's in constant time. Files are checked once a second at most, by a request that comes in. A file is read again when its
// time, its size or the file itself is another one. Wrong tokens beyond ten in a second are answered 429. A right token always
// passes, whatever wrong ones others send.
//
// The guard hands the writer on as it got it, so a handler may flush and set deadlines by http.ResponseController.
//
// # Who owns which goroutine
//
// It starts none. A request whose turn it is to check the files does that on its own goroutine; others meanwhile use the last
// good tokens.
//
// # Failure
//
// At start, a file that can't be read or holds no token is an error. Later the last good token stays in use, and the log says so
// once. So a file that is removed revokes nothing: put another token into it. No error and no log line holds a token.
package auth
