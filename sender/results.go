package sender

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"dispatcher/internal/fault"
)

// The statuses that have a result. Below them no answer is final.
const (
	leastStatus = 200
	mostStatus  = 999
)

// rule is the result of the statuses from first to last.
type rule struct {
	first, last int
	kind        Kind
}

func (r rule) exact() bool { return r.first == r.last }

func (r rule) String() string {
	if r.exact() {
		return strconv.Itoa(r.first)
	}
	return strconv.Itoa(r.first) + "-" + strconv.Itoa(r.last)
}

// defaultResults are the results of statuses that are not configured. The principle: a
// job is rejected only if the job itself is wrong, because a rejected job is not sent
// again.
//
// A 5xx doesn't prove that nothing was done. The call is repeated with the same
// idempotency key, by which the provider can recognise it.
func defaultResults() []rule {
	return []rule{
		{200, 299, Accepted},
		{300, 399, Unavailable}, // not followed: the URL has moved, or a maintenance page is shown
		{400, 499, Rejected},
		{401, 401, Unavailable}, // a wrong key or an empty account is no job's fault, and would dead-letter every job
		{402, 402, Unavailable},
		{403, 403, Unavailable},
		{404, 404, Unavailable}, // so would a wrong URL or method
		{405, 405, Unavailable},
		{407, 407, Unavailable},
		{408, 408, Unavailable}, // the provider asks for the call again
		{421, 421, Unavailable}, // the connection is wrong, not the job
		{425, 425, Unavailable},
		{426, 426, Unavailable},
		{429, 429, Throttled},
		{500, 599, Unavailable},
		{501, 501, Rejected}, // a repetition doesn't help
		{505, 505, Rejected},
		{600, 999, Unavailable}, // as a 5xx (RFC 9110, 15)
	}
}

// resultNames are the results that a status can be configured to have, see [Kind].
func resultNames() []string {
	var names []string
	for _, k := range Kinds() {
		if k != NotSent { // is no answer
			names = append(names, k.String())
		}
	}
	return names
}

// Results are the results of statuses that differ from the defaults. The key is a
// status (404) or a range (500-599), the value the name of a [Kind] other than
// not_sent. A status wins over a range.
type Results map[string]string

// parse reads the entries, in the order of their statuses, and adds a fault for
// each entry that can't be.
func (r Results) parse(l *fault.List) []rule {
	var rules []rule
	for _, status := range slices.Sorted(maps.Keys(r)) {
		name, field := r[status], "results."+status
		first, last, ok := parseStatus(status)
		at := slices.Index(resultNames(), name)
		l.Refuse(!ok, field, name, "the key must be a status, such as 404, or a range, such as 500-599, from %d to %d", leastStatus, mostStatus)
		l.Refuse(at < 0, field, name, "must be one of %s", strings.Join(resultNames(), ", "))
		if ok && at >= 0 {
			rules = append(rules, rule{first, last, Kinds()[at]})
		}
	}
	var before rule // the range with the highest statuses so far
	for _, r := range rules {
		if r.exact() {
			continue
		}
		l.Refuse(before.last >= r.first, "results."+r.String(), r.kind.String(), "overlaps with %s; state each status in one range", before)
		before = r
	}
	return rules
}

// parseStatus reads 404 or 500-599. There is one way to write each.
func parseStatus(text string) (first, last int, ok bool) {
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	first, errFirst := strconv.Atoi(from)
	last, errLast := strconv.Atoi(to)
	if errFirst != nil || errLast != nil || len(from) != 3 || len(to) != 3 || first < leastStatus || last > mostStatus {
		return 0, 0, false
	}
	return first, last, isRange && first < last || !isRange
}

// statusTable holds the result of each status.
type statusTable struct {
	kinds  [mostStatus + 1]Kind
	own403 bool // the result of a 403 is configured
}

// newStatusTable puts the rules over the defaults; of each, an exact status over a range.
func newStatusTable(configured []rule) *statusTable {
	r := new(statusTable)
	for _, rules := range [][]rule{defaultResults(), configured} {
		for _, exact := range []bool{false, true} {
			for _, one := range rules {
				if one.exact() != exact {
					continue
				}
				for status := one.first; status <= one.last; status++ {
					r.kinds[status] = one.kind
				}
			}
		}
	}
	for _, one := range configured {
		r.own403 = r.own403 || one.first <= 403 && 403 <= one.last
	}
	return r
}

// kind is the result of a status. Below 200 no answer is final.
func (r *statusTable) kind(status int) Kind {
	if status < leastStatus || status > mostStatus {
		return Unknown
	}
	return r.kinds[status]
}

// classify makes the result of an answer. Some providers throttle with a 403:
// one that names a time is Throttled, unless the result of a 403 is configured. Of a
// 403 or a 503 the rate limit headers count only where no call is left. Some providers
// send them with each answer.
func (r *statusTable) classify(status int, header http.Header) Result {
	res := Result{Kind: r.kind(status), Status: status}
	if res.Kind == Accepted {
		return res
	}
	if res.Kind == Throttled || res.Kind == Unavailable {
		full := res.Kind == Throttled || (status == http.StatusServiceUnavailable || status == http.StatusForbidden) && noneLeft(header)
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
