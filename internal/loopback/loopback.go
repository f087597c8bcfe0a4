// Package loopback tells which hosts are this machine. It asks no resolver, and starts no goroutine.
package loopback

import (
	"net"
	"strings"
)

// Is reports whether a host, without a port, names this machine: localhost, or an address of loopback.
func Is(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
