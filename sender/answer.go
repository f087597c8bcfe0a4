package sender

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"

	"dispatcher/internal/fault"
)

// MaxAnswer is how much of an answer that did not accept its job is kept, in bytes.
const MaxAnswer = 512

// answerReader makes results of answers.
type answerReader struct {
	statuses  *statusTable
	messageID place
	units     place
	limit     place
	maxBody   int64
	keep      bool // the beginning of an answer that did not accept its job
	plain     bool // calls go to http://
}

// newAnswerReader takes settings that were validated.
func newAnswerReader(c Config, scheme string) answerReader {
	var none fault.List
	r := answerReader{
		statuses: newStatusTable(c.Results.parse(&none)), maxBody: int64(c.MaxResponseBytes),
		keep: c.KeepAnswers, plain: scheme == "http",
	}
	r.messageID, _ = parsePlace(c.MessageID)
	r.units, _ = parsePlace(c.Units)
	r.limit, _ = parsePlace(c.ThrottledLimit)
	return r
}

// read reads an answer's body to its end, and reports whether it got there. It keeps
// the body where something that is looked for is in it, else the beginning or nothing.
func (r *answerReader) read(resp *http.Response) (kept []byte, whole bool) {
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return nil, false
	}
	if resp.Body == http.NoBody {
		return nil, true
	}
	limited := io.LimitReader(resp.Body, r.maxBody+1)
	if !r.needsWhole(resp.StatusCode) {
		if r.keeps(resp.StatusCode) || r.maybeTLS(resp.StatusCode) {
			kept, _ = io.ReadAll(io.LimitReader(limited, MaxAnswer)) // the next read fails as well
		}
		n, err := io.Copy(io.Discard, limited)
		return kept, err == nil && n+int64(len(kept)) <= r.maxBody
	}
	kept, err := io.ReadAll(limited)
	return kept, err == nil && int64(len(kept)) <= r.maxBody
}

// needsWhole reports whether something that is looked for in an answer of this status is in its body. No answer that accepted its
// job is about a limit.
func (r *answerReader) needsWhole(status int) bool {
	return r.messageID.path != nil || r.units.path != nil || r.limit.path != nil && r.statuses.kind(status) != Accepted
}

// result is what an answer means for the job. Nothing is looked for in a body that was not read to its end.
func (r *answerReader) result(resp *http.Response, kept []byte, whole bool) Result {
	res := r.statuses.classify(resp.StatusCode, resp.Header)
	var body []byte
	if whole {
		body = kept
	}
	res.MessageID = cleanID(r.messageID.read(resp.Header, body))
	res.Units = readUnits(r.units.read(resp.Header, body))
	if res.Kind == Throttled {
		res.Limit = cleanID(r.limit.read(resp.Header, body))
	}
	if r.keeps(resp.StatusCode) { // whole runes
		res.Answer = strings.ToValidUTF8(string(kept[:min(len(kept), MaxAnswer)]), "")
	}
	if r.maybeTLS(resp.StatusCode) && wantsTLS(kept) {
		res.Kind, res.Err = Unavailable, errWantsTLS
	}
	return res
}

// lacksUnits reports whether an answer should name units, and does not.
func (r *answerReader) lacksUnits(res *Result) bool {
	return (r.units.header != "" || r.units.path != nil) && res.Kind == Accepted && res.Units == nil
}

// keeps reports whether the beginning of an answer of this status is kept.
func (r *answerReader) keeps(status int) bool { return r.keep && r.statuses.kind(status) != Accepted }

var errWantsTLS = errors.New("the provider answered 400, for it wants https on this port; is the url right?")

// maybeTLS reports whether an answer may come from a port that wants https.
func (r *answerReader) maybeTLS(status int) bool { return r.plain && status == http.StatusBadRequest }

// wantsTLS recognises what the usual servers answer to plain HTTP on such a port. It
// is no job's fault, and would dead-letter all of them.
func wantsTLS(body []byte) bool {
	text := string(body[:min(len(body), MaxAnswer)])
	return strings.Contains(text, "Client sent an HTTP request to an HTTPS server") || // Go, Caddy, Traefik
		strings.Contains(text, "The plain HTTP request was sent to HTTPS port") || // nginx, Envoy
		strings.Contains(text, "speaking plain HTTP to an SSL-enabled server port") // Apache
}

var (
	errCut    = errors.New("the connection was closed")
	errBroken = errors.New("the connection was closed, or the answer can't be read as HTTP")
)

// plain keeps the network's error and hides what net/http quotes: an answer that
// can't be read may hold the payload.
func plain(err error) error {
	if opErr, ok := errors.AsType[*net.OpError](err); ok {
		return opErr
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) {
		return errCut
	}
	return errBroken
}
