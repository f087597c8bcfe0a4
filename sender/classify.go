package sender

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// classify makes the result of an answer. Some providers say "too often" with a 403
// (GitHub): one that names a time is Throttled, unless a 403 is configured.
func (r *statusTable) classify(status int, header http.Header) Result {
	res := Result{Kind: r.kind(status), Status: status}
	if res.Kind == Accepted {
		return res
	}
	if res.Kind == Throttled || res.Kind == Unavailable {
		full := res.Kind == Throttled || status == http.StatusServiceUnavailable
		res.RetryAfter = retryAfter(header, time.Now(), full)
	}
	if status == http.StatusForbidden && res.RetryAfter > 0 && !r.own403 {
		res.Kind = Throttled
	}
	res.Err = statusError(status)
	return res
}

func statusError(status int) error {
	text := strings.ToLower(http.StatusText(status))
	if status >= 300 && status < 400 {
		return fmt.Errorf("the provider answered %d, a redirect, which is not followed; is the url right?", status)
	}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return fmt.Errorf("the provider does not accept the credentials: %d %s", status, text)
	case http.StatusPaymentRequired:
		return fmt.Errorf("the provider's account does not allow the call: %d %s", status, text)
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return fmt.Errorf("the provider does not know the url, the method or what the job names: %d %s", status, text)
	}
	if text == "" {
		return fmt.Errorf("the provider answered %d", status)
	}
	return fmt.Errorf("the provider answered %d %s", status, text)
}

// hint shortens the time that the connection may be idle to what the provider
// says it will wait, less a margin for the way: a call that is written while
// the provider closes has an unknown fate.
func (c *conn) hint(header http.Header) {
	values := header["Keep-Alive"]
	if len(values) == 0 {
		return
	}
	for param := range strings.SplitSeq(values[0], ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
		if !strings.EqualFold(name, "timeout") {
			continue
		}
		if s, err := strconv.ParseUint(value, 10, 16); err == nil {
			c.keep = min(c.keep, max(0, time.Duration(s)*time.Second-time.Second))
		}
	}
}
