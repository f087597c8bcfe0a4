package sender

import (
	"iter"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// maxRetryAfter bounds the wait that a provider can ask for: one wrong header must
	// not stop a fleet for a day.
	maxRetryAfter = 10 * time.Minute
	// maxHint is the length of the longest header that is read.
	maxHint = 4 << 10
)

// retryAfter reads for how long the provider wants no call; 0: not stated. It trusts
// Retry-After first. With full it then tries the RateLimit headers and
// X-RateLimit-Reset. It skips malformed headers.
func retryAfter(h http.Header, now time.Time, full bool) time.Duration {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date // the provider's clock, as its dates are
	}
	if d, ok := parseRetryAfter(h.Get("Retry-After"), now); ok {
		return d
	}
	if !full {
		return 0
	}
	if d, ok := parseRateLimit(strings.Join(h.Values("RateLimit"), ",")); ok {
		return d
	}
	for _, name := range []string{"RateLimit-Reset", "X-RateLimit-Reset"} {
		if d, ok := parseReset(h.Get(name), now); ok {
			return d
		}
	}
	return 0
}

// parseRetryAfter: seconds or a date (RFC 9110, 10.2.3). A fraction isn't
// allowed there, but is understood.
func parseRetryAfter(s string, now time.Time) (time.Duration, bool) {
	if d, ok := parseSeconds(s); ok {
		return d, true
	}
	if len(s) > maxHint {
		return 0, false
	}
	date, err := http.ParseTime(s)
	if err != nil {
		return 0, false
	}
	return clamp(date.Sub(now)), true
}

// parseReset reads seconds from now, or seconds or milliseconds since 1970. Providers
// differ, and the size tells which it is.
func parseReset(s string, now time.Time) (time.Duration, bool) {
	n, ok := parseNumber(s)
	switch {
	case !ok:
		return 0, false
	case n > 1e12:
		return clamp(time.UnixMilli(int64(min(n, 1e15))).Sub(now)), true
	case n > 1e9:
		return clamp(time.Unix(int64(math.Ceil(n)), 0).Sub(now)), true
	}
	return seconds(n), true
}

func parseSeconds(s string) (time.Duration, bool) {
	n, ok := parseNumber(s)
	return seconds(n), ok
}

// parseNumber: digits, and perhaps a point and digits. No sign, no exponent.
func parseNumber(s string) (float64, bool) {
	whole, fraction, point := strings.Cut(s, ".")
	if len(s) > 32 || !isDigits(whole) || point && !isDigits(fraction) {
		return 0, false
	}
	n, err := strconv.ParseFloat(s, 64)
	return n, err == nil
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// seconds rounds up: the header is there to prevent an early call.
func seconds(n float64) time.Duration {
	n = min(n, maxRetryAfter.Seconds())
	return clamp(time.Duration(math.Ceil(n*1e3)) * time.Millisecond)
}

func clamp(d time.Duration) time.Duration { return min(max(d, 0), maxRetryAfter) }

// parseRateLimit reads the RateLimit header: a list of policies with the calls that
// remain (r) and the seconds until there are more (t), or the older
// `limit=…, remaining=…, reset=…`. If policies are used up, the longest wait of those
// holds. Otherwise the shortest of all holds: a policy of a day with many calls left
// did not stop this call.
func parseRateLimit(s string) (time.Duration, bool) {
	usedUp, left := time.Duration(-1), time.Duration(-1)
	for item := range members(s) {
		remaining, wait, ok := parsePolicy(item)
		switch {
		case !ok:
		case remaining == 0:
			usedUp = max(usedUp, wait)
		case left < 0 || wait < left:
			left = wait
		}
	}
	if usedUp >= 0 {
		return usedUp, true
	}
	return max(left, 0), left >= 0
}

// noneLeft tells whether the provider states that no call remains, in all or under one
// of its policies.
func noneLeft(h http.Header) bool {
	for _, name := range []string{"RateLimit-Remaining", "X-RateLimit-Remaining"} {
		if n, ok := parseNumber(h.Get(name)); ok && n == 0 {
			return true
		}
	}
	for item := range members(strings.Join(h.Values("RateLimit"), ",")) {
		if remaining, _, _ := parsePolicy(item); remaining == 0 {
			return true
		}
	}
	return false
}

// members are those of a list, or none where it is too long.
func members(list string) iter.Seq[string] {
	return func(yield func(string) bool) {
		rest := list
		for more := list != "" && len(list) <= maxHint; more; {
			var item string
			item, rest, more = cutQuoted(rest, ',')
			if !yield(item) {
				return
			}
		}
	}
}

// parsePolicy reads one member of the list. ok: it names a time.
func parsePolicy(item string) (remaining, wait time.Duration, ok bool) {
	remaining = 1
	for more := true; more; {
		var param string
		param, item, more = cutQuoted(item, ';')
		name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
		d, valid := parseSeconds(value)
		if !valid {
			continue
		}
		switch strings.ToLower(name) {
		case "r", "remaining":
			remaining = d
		case "t", "reset":
			wait, ok = d, true
		}
	}
	return remaining, wait, ok
}

// cutQuoted cuts at the first separator outside of double quotes.
func cutQuoted(s string, sep byte) (head, tail string, found bool) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case quoted && s[i] == '\\':
			i++
		case !quoted && s[i] == sep:
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}
