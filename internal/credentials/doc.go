// Package credentials gives what a client proves itself with, as it is when a
// connection is made.
//
// A [Text] follows its file: a password or a token that was rotated is used by the
// next connection. [Tokens] asks a token endpoint (OAuth 2.0, client credentials)
// and uses a token until shortly before its end.
//
// What can't be had anew keeps the last good value as long as that is of use, and
// is logged once. No error and no log line holds a credential.
//
// There are no goroutines but one for each request to a token endpoint; it ends
// with the request, after at most 10 seconds.
package credentials
