// Package credentials returns the credentials of a client as they are when a connection
// is made.
//
// A [Text] follows its file: the next connection uses a rotated password or token.
// [Tokens] gets tokens from an endpoint (OAuth 2.0, client credentials), and uses each
// until shortly before its end.
//
// # Goroutines
//
// One for each request to a token endpoint. It ends with the request, after at most 10
// seconds.
//
// # Failure
//
// A credential that can't be renewed keeps its last good value as long as that is
// valid. The failure is logged once. No error and no log line holds a credential.
package credentials
