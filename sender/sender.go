package sender

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"dispatcher/internal/boottime"
	"dispatcher/job"
	"dispatcher/sender/internal/conns"
)

// mostDead is how many connections of one call may turn out to be dead under a permit
// before the provider counts as unavailable.
const mostDead = 3

// Sender calls one provider. Its methods may be called from any goroutine.
type Sender struct {
	template    *template
	pool        *conns.Pool
	timeout     time.Duration
	reader      answerReader
	onRoundTrip func(time.Duration)
	logger      *slog.Logger
	metrics     *metrics

	warnUncounted sync.Once
}

// New makes a sender; it doesn't call the provider yet. The error names every faulty
// option and its value, but never a secret.
func New(o Options) (*Sender, error) {
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if err := o.openTLS(); err != nil {
		return nil, fmt.Errorf("tls.%w", err)
	}
	t := newTemplate(o.Config)
	s := &Sender{
		template:    t,
		timeout:     o.Timeout,
		reader:      newAnswerReader(o.Config, t.url.Scheme),
		onRoundTrip: o.OnRoundTrip,
		logger:      o.Logger,
	}
	s.pool = conns.New(s.poolOptions(o))
	var err error
	s.metrics, err = newMetrics(o.Registerer, s.pool)
	return s, err
}

func (s *Sender) poolOptions(o Options) conns.Options {
	return conns.Options{
		Scheme: s.template.url.Scheme, Address: s.template.address(), Dial: o.Dial, TLSConfig: o.TLSConfig,
		DialTimeout: o.DialTimeout, IdleTimeout: o.IdleTimeout, MaxAge: o.MaxConnAge, OnDial: s.dialed,
	}
}

// dialed counts a dial.
func (s *Sender) dialed(ctx context.Context, c *conns.Conn, err error) {
	if err != nil {
		s.metrics.dials.WithLabelValues("error").Inc()
		s.logger.DebugContext(ctx, "connection to the provider could not be opened", "error", err)
		return
	}
	s.metrics.dials.WithLabelValues("ok").Inc()
	if d := c.HandshakeTime(); d > 0 {
		s.metrics.roundTrip.Observe(d.Seconds())
		s.onRoundTrip(d)
	}
}

// Close closes every connection. Calls in flight return at once as Unknown, and later
// calls are NotSent.
func (s *Sender) Close() { s.pool.Close() }

// Address is the provider as scheme://host, for people. The rest of the URL may be
// secret.
func (s *Sender) Address() string { return s.template.url.Scheme + "://" + s.template.url.Host }

// Reach opens a connection, TLS included, and keeps it for a call. It sends nothing.
// It returns the round trip of the TCP handshake; 0: it is not known.
func (s *Sender) Reach(ctx context.Context) (roundTrip time.Duration, err error) {
	c, err := s.pool.Dial(ctx)
	if err != nil {
		return 0, fmt.Errorf("connect: %w", err)
	}
	s.pool.Put(c)
	return c.HandshakeTime(), nil
}

// Send makes one call for j, on an idle or a new connection. See [Sender.SendOn].
func (s *Sender) Send(ctx context.Context, j job.Job, permit Permit) Result {
	return s.SendOn(ctx, new(Conn), j, permit)
}

// SendOn makes one call for j. It takes the connection out of on, or gets one itself.
// It asks for the permit last, when it has rendered the request and has a connection,
// and again only if it wrote nothing under the permit before. Ending ctx ends the wait
// for a connection or a permit. A call that has begun is ended by its timeout or by
// Close.
func (s *Sender) SendOn(ctx context.Context, on *Conn, j job.Job, permit Permit) Result {
	res := s.send(ctx, on, &j, permit)
	on.Release()
	s.metrics.observe(&res)
	return res
}

func (s *Sender) send(ctx context.Context, on *Conn, j *job.Job, permit Permit) Result {
	body, mediaType := s.template.payload(j)
	header, err := s.template.headers(j, mediaType)
	if err != nil {
		return Result{Kind: Rejected, Err: err}
	}
	dead, fresh := 0, false
	for {
		req := s.template.request(body) // a body is read once, so each try has its own
		req.Header = header
		c, err := s.connection(ctx, on, fresh)
		if err != nil {
			return unreached(ctx, err)
		}
		res, err := s.try(ctx, c, req, permit, fresh)
		switch {
		case err == nil:
			return res
		case errors.Is(err, errLate):
			s.metrics.late.Inc()
		case errors.Is(err, errStale):
			fresh = true // idle ones may be stale as well, and cost one more permit each
		default:
			if dead++; dead == mostDead {
				return Result{Kind: Unavailable, Err: fmt.Errorf("write: connection lost before the call, %d times: %w", dead, err)}
			}
		}
	}
}

// unreached: without a connection there was no permit. If the caller or Close ended
// the wait, the provider is not at fault.
func unreached(ctx context.Context, err error) Result {
	if ctx.Err() != nil {
		return Result{Kind: NotSent, Err: fmt.Errorf("connect: %w", context.Cause(ctx))}
	}
	if errors.Is(err, ErrClosed) {
		return Result{Kind: NotSent, Err: err}
	}
	return Result{Kind: Unavailable, Err: fmt.Errorf("connect: %w", err)}
}

// Why a try wrote nothing. A stale connection would be written to while the
// provider closes it.
var (
	errLate  = errors.New("the permit was over when the write began")
	errStale = errors.New("the connection was idle for too long when the permit came")
)

// try makes the call on c. An error means that nothing was written, and that c
// was dropped. A fresh connection is used however long the permit takes: where each
// permit takes long, the call would never be made.
func (s *Sender) try(ctx context.Context, c *conns.Conn, req *http.Request, permit Permit, fresh bool) (Result, error) {
	useBy, err := s.permitted(ctx, permit)
	if err != nil {
		s.pool.Put(c)
		return Result{Kind: NotSent, Err: fmt.Errorf("permit: %w", err)}, nil
	}
	if !fresh && c.Stale() {
		s.pool.Drop(c)
		return Result{}, errStale
	}
	resp, err := c.RoundTrip(req, useBy, s.timeout)
	if err != nil {
		call, _ := c.End()
		s.pool.Drop(c)
		return s.unanswered(call, err)
	}
	return s.answered(c, resp)
}

// permitted asks for a permit until it gets one that isn't over yet. The connection
// checks again; here a late permit doesn't cost the connection.
func (s *Sender) permitted(ctx context.Context, permit Permit) (boottime.Deadline, error) {
	for {
		useBy, err := permit(ctx)
		if err != nil || !useBy.Over(time.Now(), boottime.Last) {
			return useBy, err
		}
		s.metrics.late.Inc()
		if ctx.Err() != nil {
			return useBy, context.Cause(ctx)
		}
	}
}

// unanswered is the result of a call that was written and got no answer. An error
// means that nothing was written.
func (s *Sender) unanswered(call conns.Call, err error) (Result, error) {
	switch {
	case call.Late:
		return Result{}, errLate
	case call.WroteAt.IsZero():
		return Result{}, plain(err)
	case call.TimedOut:
		err = fmt.Errorf("no answer within %v", s.timeout)
	default:
		err = fmt.Errorf("no answer: %w", plain(err))
	}
	return Result{Kind: Unknown, Err: err, WroteAt: call.WroteAt, Elapsed: time.Since(call.WroteAt)}, nil
}

// answered reads the rest of an answer and gives the connection back. The status
// alone decides the result, even if the body is cut. An answer that came before the
// call was written belongs to something else.
//
// The connection of an Unavailable answer is dropped. It may lead to the one ill backend
// of several, and a backend that fails at once would be back first and get most of the
// calls. So each such answer costs a dial, also where the job is at fault.
func (s *Sender) answered(c *conns.Conn, resp *http.Response) (Result, error) {
	kept, whole := s.reader.read(resp)
	_ = resp.Body.Close()
	call, alive := c.End()
	if call.WroteAt.IsZero() {
		s.pool.Drop(c)
		return s.unanswered(call, errBroken)
	}
	res := s.reader.result(resp, kept, whole)
	if s.reader.lacksUnits(&res) {
		s.metrics.uncounted.Inc()
		s.warnUncounted.Do(func() {
			s.logger.Warn("the provider's answer does not name its units where sender.http.units says, or is longer than max_response_bytes; the job counts what it was granted")
		})
	}
	res.WroteAt = call.WroteAt
	res.Elapsed = time.Since(call.WroteAt)
	s.pool.Finish(c, resp.Header, whole && alive && res.Kind != Unavailable)
	return res, nil
}
