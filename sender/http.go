package sender

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"dispatcher/internal/fault"
	"dispatcher/job"
)

// maxDead is how many connections in a row may turn out to be dead under a
// permit before the provider counts as unavailable.
const maxDead = 3

// Sender calls one provider. Its methods may be called from any goroutine.
type Sender struct {
	template *template
	conns    *conns
	timeout  time.Duration
	maxBody  int64
	logger   *slog.Logger
	metrics  *metrics

	messageID   messageID
	results     *statusTable
	keepAnswers bool
	onRoundTrip func(time.Duration)
}

// New makes a sender; it doesn't call the provider yet. The error names every
// faulty option and its value, but never a secret.
func New(o Options) (*Sender, error) {
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if err := o.openTLS(); err != nil {
		return nil, fmt.Errorf("tls.%w", err)
	}
	var none fault.List // the results were validated
	h := &Sender{
		template:    newTemplate(o.Config),
		results:     newStatusTable(o.Results.parse(&none)),
		timeout:     o.Timeout,
		maxBody:     int64(o.MaxResponseBytes),
		keepAnswers: o.KeepAnswers,
		onRoundTrip: o.OnRoundTrip,
		logger:      o.Logger,
	}
	h.messageID, _ = parseMessageID(o.MessageID)
	dialer := newDialer(o, h.template)
	h.conns = newConns(func(ctx context.Context) (*conn, error) { return h.dial(ctx, dialer) })
	var err error
	h.metrics, err = newMetrics(o.Registerer, h.conns)
	return h, err
}

// Close closes every connection, those with a call on the wire as well: such
// calls return at once as Unknown. Calls that come later are NotSent.
func (h *Sender) Close() { h.conns.close() }

// Address is the provider as scheme://host, for people. What else the URL holds may
// be secret.
func (h *Sender) Address() string { return h.template.url.Scheme + "://" + h.template.url.Host }

// Reach opens a connection, TLS included, and keeps it for a call. It sends nothing.
// It returns the round trip of the TCP handshake; 0: the system can't tell.
func (h *Sender) Reach(ctx context.Context) (roundTrip time.Duration, err error) {
	c, err := h.conns.fresh(ctx)
	if err != nil {
		return 0, fmt.Errorf("connect: %w", err)
	}
	h.conns.put(c)
	return c.wire.roundTrip, nil
}

// Send makes one call for j, on a connection that it takes or opens itself. See
// [Sender.SendOn].
func (h *Sender) Send(ctx context.Context, j job.Job, permit Permit) Result {
	return h.SendOn(ctx, new(Conn), j, permit)
}

// SendOn makes one call for j. It takes the connection out of on, and opens one
// where there is none. It asks for the permit last, when the request is
// rendered and a connection is at hand, and again only where nothing was
// written under the one before. Ending ctx ends the wait for a connection or a
// permit; a call that has begun is ended by its timeout or by Close.
func (h *Sender) SendOn(ctx context.Context, on *Conn, j job.Job, permit Permit) Result {
	res := h.send(ctx, on, &j, permit)
	on.Release()
	h.metrics.observe(&res)
	return res
}

func (h *Sender) send(ctx context.Context, on *Conn, j *job.Job, permit Permit) Result {
	body, mediaType := h.template.payload(j)
	header, err := h.template.headers(j, mediaType)
	if err != nil {
		return Result{Kind: Rejected, Err: err}
	}
	dead, aged := 0, false
	for {
		req := h.template.request(body) // a body is read once, so one a round
		req.Header = header
		c, err := h.connection(ctx, on, aged)
		if err != nil {
			return unreached(ctx, err)
		}
		res, err := h.attempt(ctx, c, req, permit)
		switch {
		case err == nil:
			return res
		case errors.Is(err, errLate):
			h.metrics.late.Inc()
		case errors.Is(err, errAged):
			aged = true // those that are idle may age as well, and cost one more permit each
		default:
			if dead++; dead == maxDead {
				return Result{Kind: Unavailable, Err: fmt.Errorf("write: connection lost before the call, %d times: %w", dead, err)}
			}
		}
	}
}

// connection takes the one that is set aside or an idle one, or dials one where
// there is none or fresh asks for it.
func (h *Sender) connection(ctx context.Context, on *Conn, fresh bool) (*conn, error) {
	set := *on
	*on = Conn{}
	if set.c != nil || set.err != nil && time.Since(set.at) <= failureLasts {
		return set.c, set.err
	}
	if !fresh {
		if c, err := h.conns.pop(); c != nil || err != nil {
			return c, err
		}
	}
	return h.conns.fresh(ctx)
}

// dial opens a connection, and counts it.
func (h *Sender) dial(ctx context.Context, d *dialer) (*conn, error) {
	c, err := d.dial(ctx)
	h.metrics.dialed(err)
	if err != nil {
		h.logger.DebugContext(ctx, "connection to the provider could not be opened", "error", err)
		return nil, err
	}
	if d := c.wire.roundTrip; d > 0 {
		h.metrics.roundTrip.Observe(d.Seconds())
		h.onRoundTrip(d)
	}
	return c, nil
}

// unreached: no connection, hence no permit. Where the caller or Close ended
// the wait, it is not the provider's fault.
func unreached(ctx context.Context, err error) Result {
	if ctx.Err() != nil {
		return Result{Kind: NotSent, Err: fmt.Errorf("connect: %w", context.Cause(ctx))}
	}
	if errors.Is(err, ErrClosed) {
		return Result{Kind: NotSent, Err: err}
	}
	return Result{Kind: Unavailable, Err: fmt.Errorf("connect: %w", err)}
}

// errAged: the permit came so late that the connection had been idle for too
// long. A call on it might be written while the provider closes.
var errAged = errors.New("the connection grew old while the call waited for its permit")

// attempt makes the call on c. An error means that nothing was written and
// that c is gone.
func (h *Sender) attempt(ctx context.Context, c *conn, req *http.Request, permit Permit) (Result, error) {
	useBy, err := h.permitted(ctx, permit)
	if err != nil {
		h.conns.put(c)
		return Result{Kind: NotSent, Err: fmt.Errorf("permit: %w", err)}, nil
	}
	if c.reused && c.old(time.Now()) {
		h.conns.drop(c)
		return Result{}, errAged
	}
	c.wire.arm(useBy, h.timeout)
	resp, err := c.client.RoundTrip(req)
	if err != nil {
		// net/http has seen its writing goroutine end before it returns an
		// error, so that what the wire says now is final.
		call, _ := c.wire.end()
		h.conns.drop(c)
		return failed(call, err)
	}
	return h.answered(c, resp)
}

// permitted asks for a permit until it gets one that isn't over yet. The wire
// checks again; here a late one doesn't cost the connection.
func (h *Sender) permitted(ctx context.Context, permit Permit) (time.Time, error) {
	for {
		useBy, err := permit(ctx)
		if err != nil || !over(useBy, time.Now()) {
			return useBy, err
		}
		h.metrics.late.Inc()
		if ctx.Err() != nil {
			return useBy, context.Cause(ctx)
		}
	}
}

// failed tells what a call without an answer means.
func failed(call call, err error) (Result, error) {
	switch {
	case call.late:
		return Result{}, errLate
	case call.wroteAt.IsZero():
		return Result{}, plain(err)
	case call.timedOut:
		err = fmt.Errorf("no answer within %v", call.timeout)
	default:
		err = fmt.Errorf("no answer: %w", plain(err))
	}
	return Result{Kind: Unknown, Err: err, WroteAt: call.wroteAt, Elapsed: time.Since(call.wroteAt)}, nil
}

var (
	errCut    = errors.New("the connection was closed")
	errBroken = errors.New("the connection was closed, or what came can't be read as HTTP")
)

// plain keeps what the network says and hides what net/http quotes: an answer
// that can't be read may hold the payload.
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

var errWantsTLS = errors.New("the provider answered 400, for it wants https on this port; is the url right?")

// maybeTLS reports whether an answer may come from a port that wants https.
func (h *Sender) maybeTLS(status int) bool {
	return status == http.StatusBadRequest && h.template.url.Scheme == "http"
}

// wantsTLS recognises what the usual servers say to plain HTTP on such a port. No job
// is to blame for it, and all of them would be dead-lettered.
func wantsTLS(body []byte) bool {
	text := string(body[:min(len(body), MaxAnswer)])
	return strings.Contains(text, "Client sent an HTTP request to an HTTPS server") || // Go, Caddy, Traefik
		strings.Contains(text, "The plain HTTP request was sent to HTTPS port") || // nginx, Envoy
		strings.Contains(text, "speaking plain HTTP to an SSL-enabled server port") // Apache
}

// keeps reports whether the beginning of an answer of this status is kept.
func (h *Sender) keeps(status int) bool { return h.keepAnswers && h.results.kind(status) != Accepted }

// answered reads the rest of an answer and gives the connection back if it can
// be used again. The status alone decides: what is behind it may be cut. An
// answer that came before the call was written belongs to something else.
func (h *Sender) answered(c *conn, resp *http.Response) (Result, error) {
	var body []byte
	whole := false
	if resp.StatusCode != http.StatusSwitchingProtocols {
		body, whole = h.consume(resp.Body, h.keeps(resp.StatusCode) || h.maybeTLS(resp.StatusCode))
	}
	_ = resp.Body.Close()
	call, alive := c.wire.end()
	if call.wroteAt.IsZero() {
		h.conns.drop(c)
		return failed(call, errBroken)
	}
	res := h.results.classify(resp.StatusCode, resp.Header)
	res.MessageID = h.messageID.read(resp.Header, body)
	if h.keeps(resp.StatusCode) {
		res.Answer = beginningOf(body)
	}
	if h.maybeTLS(resp.StatusCode) && wantsTLS(body) {
		res.Kind, res.Err = Unavailable, errWantsTLS
	}
	res.WroteAt = call.wroteAt
	res.Elapsed = time.Since(call.wroteAt)
	if whole && alive && c.client.Available() == 1 {
		c.hint(resp.Header)
		c.idleAt = time.Now()
		h.conns.put(c)
	} else {
		h.conns.drop(c)
	}
	return res, nil
}
