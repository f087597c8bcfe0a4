package sender

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// KindOf tells what an HTTP status means for the job. The rule behind it: a
// job is rejected only for what is wrong with the job, because a rejected job
// is not sent again.
//
//	below 200           Unknown      not a final answer
//	2xx                 Accepted
//	3xx                 Unavailable  a redirect, which is not followed: the URL
//	                                 has moved, or a maintenance page is shown
//	429                 Throttled
//	401 402 403 407     Unavailable  a wrong key or an empty account is no job's
//	                                 fault, and would dead-letter all of them
//	404 405             Unavailable  a wrong URL or method, which is
//	                                 configuration and would dead-letter all
//	408 425             Unavailable  ask again
//	421 426             Unavailable  the connection is wrong, and not the job
//	other 4xx           Rejected     410 as well: it says that this is for good
//	501 505             Rejected     it never will
//	other 5xx           Unavailable
//	600 and more        Unavailable  as a 5xx (RFC 9110, 15)
//
// Where a provider means the job's own recipient by its 404, the job is not
// called for ever: the policy gives it up after some calls, while others succeed.
//
// A 5xx doesn't prove that nothing was done. The call is made again with the
// same idempotency key, and the provider is to know it.
func KindOf(status int) Kind {
	switch status {
	case http.StatusTooManyRequests:
		return Throttled
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusProxyAuthRequired,
		http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusRequestTimeout, http.StatusTooEarly,
		http.StatusMisdirectedRequest, http.StatusUpgradeRequired:
		return Unavailable
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return Rejected
	}
	switch {
	case status < 200:
		return Unknown
	case status < 300:
		return Accepted
	case status < 400:
		return Unavailable
	case status < 500:
		return Rejected
	}
	return Unavailable
}

func classify(status int, header http.Header) Result {
	res := Result{Kind: KindOf(status), Status: status}
	if res.Kind == Accepted {
		return res
	}
	if res.Kind == Throttled || res.Kind == Unavailable {
		full := res.Kind == Throttled || status == http.StatusServiceUnavailable
		res.RetryAfter = retryAfter(header, time.Now(), full)
	}
	if status == http.StatusForbidden && res.RetryAfter > 0 {
		res.Kind = Throttled // some say "too often" with a 403 (GitHub)
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
		return fmt.Errorf("the provider does not know the url, or not with this method: %d %s", status, text)
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
