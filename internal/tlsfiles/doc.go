// Package tlsfiles gives TLS clients and servers settings that follow their files.
//
// [Client.Config] reads the files of a [Client] each time. So a connection that is made
// after a rotation uses the new certificate and trusts the new authorities.
// [Client.Dial] does that for each connection of a dialer. [Settings] is the section
// tls of the configuration. [ServerSettings] is that of a server, whose certificate follows its files likewise.
//
// After a failed read the last good settings stay in use; the failure is logged once.
// The files of a certificate and of its key may be replaced one after the other: while
// they do not fit together, the last pair stays. The package has no goroutines.
//
// A client's settings are made for each handshake, and the server is not verified in a
// callback: crypto/tls passes a callback the server's name, but not the address if that
// was dialled.
package tlsfiles
