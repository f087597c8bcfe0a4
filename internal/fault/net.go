package fault

import (
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Address refuses what is no host:port. Port 0, and no host, are only good to
// listen on.
func (l *List) Address(field, value string, leastPort int) {
	if mayHoldSecret(value) {
		l.Refuse(true, field, Hidden, "must be host:port and no more; credentials have keys of their own")
		return
	}
	host, port, err := net.SplitHostPort(value)
	l.Refuse(err != nil || !isPort(port, leastPort), field, value, "must be host:port")
	l.Refuse(err == nil && host == "" && leastPort > 0, field, value, "has no host")
}

// URL refuses what is no http:// or https:// URL without credentials, which belong
// to the keys named.
func (l *List) URL(field, value, credentials string) {
	var shown any = value
	if mayHoldSecret(value) {
		shown = Hidden
	}
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		l.Refuse(true, field, shown, "must be an http:// or https:// URL with a host")
		return
	}
	l.Refuse(u.Port() != "" && !isPort(u.Port(), 1), field, shown, "has a port that is none")
	l.Refuse(u.User != nil, field, shown, "holds a user; put credentials into %s", credentials)
	l.Refuse(u.Fragment != "", field, shown, "holds a fragment, which is never sent")
}

// mayHoldSecret tells whether a text looks like a URL with a place for a secret.
func mayHoldSecret(text string) bool { return strings.ContainsAny(text, "@?") }

func isPort(text string, least int) bool {
	n, err := strconv.Atoi(text)
	return err == nil && n >= least && n <= 65535
}
