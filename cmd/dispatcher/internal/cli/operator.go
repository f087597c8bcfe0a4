package cli

import (
	"os"
	"os/user"
)

// Operator names who runs the command, for histories: user@host.
func Operator() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}
