// Package tlsfiles gives TLS clients settings that follow their files.
//
// [Client.Config] reads the files of a [Client] again each time, so a connection
// that is made after a rotation uses the new certificate and trusts the new
// authorities. [Client.Dial] does that for each connection of a dialer.
//
// A read that fails keeps the last good settings, and is logged once. The files
// of a certificate and of its key may be replaced one after the other: while
// they do not fit together, the last pair stays.
//
// The settings are made anew for each handshake, rather than verified in a
// callback: crypto/tls tells a callback the server's name, but not an address
// that was dialled instead of one.
package tlsfiles
