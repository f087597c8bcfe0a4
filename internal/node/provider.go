package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dispatcher/internal/tally"
	"dispatcher/sender"
)

// provider tells operators what the provider answers: in the log, as metrics and
// in /readyz. It decides nothing; the gate does that.
type provider struct {
	log     *slog.Logger
	address string // of the provider, without credentials

	failures *tally.Tally[sender.Result]

	mu       sync.Mutex
	last     sender.Result // of the last call
	failed   sender.Result // of the last call that failed
	failedAt time.Time     // zero: no call failed since calls last succeeded for a while
	since    time.Time     // first failure of that time
	count    int           // failures of that time
	down     time.Time     // the breaker is open since; zero: it is closed
}

const (
	mostFailures = 16               // kinds of failure that are told apart
	wellAfter    = 10 * time.Second // without a failure, after which calls are said to succeed again
	flushEvery   = time.Second
)

func newProvider(address string, log *slog.Logger, reg prometheus.Registerer) *provider {
	p := &provider{log: log, address: address, failures: tally.New[sender.Result](mostFailures)}
	if reg != nil {
		reg.MustRegister(p)
	}
	return p
}

// run tells what is left of failures that have stopped, until ctx ends.
func (p *provider) run(ctx context.Context) {
	flush := time.NewTicker(flushEvery)
	defer flush.Stop()
	for tick(ctx, flush.C) {
		for _, sum := range p.failures.Due(time.Now()) {
			p.tell(sum)
		}
		p.settle(time.Now())
	}
}

// note takes in the result of a call.
func (p *provider) note(r sender.Result) {
	if r.Kind == sender.NotSent {
		return // no call was made
	}
	now := time.Now()
	if !p.take(r, now) {
		return
	}
	if sum, due := p.failures.Note(now, kindOf(r), r); due {
		p.tell(sum)
	}
}

// take notes a result, and returns whether the call failed.
func (p *provider) take(r sender.Result, now time.Time) (failed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = r
	if r.Kind == sender.Accepted || r.Kind == sender.Rejected {
		return false
	}
	if p.failedAt.IsZero() {
		p.since, p.count = now, 0
	}
	p.failed, p.failedAt = r, now
	p.count++
	return true
}

// kindOf tells failures apart: by status, or by what the network said.
func kindOf(r sender.Result) string {
	if r.Status != 0 {
		return fmt.Sprint(r.Kind, r.Status)
	}
	err := r.Err
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next // the innermost names no port, which would make each a kind of its own
	}
	return fmt.Sprint(r.Kind, err)
}

// remedy is what an operator can do about a failed call; empty: nothing that we know.
func remedy(r sender.Result) string {
	var noTLS tls.RecordHeaderError
	switch {
	case isCredentials(r.Status):
		return "check the credentials in sender.http.headers"
	case r.Status == http.StatusNotFound || r.Status == http.StatusMethodNotAllowed:
		return fmt.Sprintf("check sender.http.url and method; if this status is about single jobs, set sender.http.results: {%d: rejected}", r.Status)
	case errors.As(r.Err, &noTLS):
		return "the provider speaks no TLS on this port; begin sender.http.url with http://, or name its port for https"
	}
	return ""
}

// tell writes one line about failures of one kind.
func (p *provider) tell(sum tally.Sum[sender.Result]) {
	r := sum.Last
	attrs := []any{"provider", p.address, "result", r.Kind, "calls", sum.Count}
	if r.Status != 0 {
		attrs = append(attrs, "status", r.Status)
	}
	if sum.Over > 0 {
		attrs = append(attrs, "in", sum.Over.Round(time.Second), "per_second", fmt.Sprintf("%.1f", sum.PerSecond()))
	}
	if r.RetryAfter > 0 {
		attrs = append(attrs, "retry_after", r.RetryAfter)
	}
	if text := remedy(r); text != "" {
		attrs = append(attrs, "remedy", text)
	}
	attrs = append(attrs, "error", r.Err)
	if r.Kind == sender.Throttled {
		p.log.Warn("the provider throttles: it says that it is called too often", attrs...)
		return
	}
	p.log.Warn("calls to the provider fail", attrs...)
}

func isCredentials(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusProxyAuthRequired
}

// settle says once that calls succeed again.
func (p *provider) settle(now time.Time) {
	p.mu.Lock()
	well := p.last.Kind == sender.Accepted || p.last.Kind == sender.Rejected
	over := !p.failedAt.IsZero() && well && p.down.IsZero() && now.Sub(p.failedAt) >= wellAfter
	count, since := p.count, p.since
	if over {
		p.failedAt = time.Time{}
	}
	p.mu.Unlock()
	if over {
		p.log.Info("calls to the provider succeed again", "provider", p.address, "failed", count, "since", since)
	}
}

// broken is told when the breaker opens, and when it closes again.
func (p *provider) broken(open bool, failures int, probe time.Duration) {
	now := time.Now()
	p.mu.Lock()
	since, last := p.down, p.failed
	p.down = time.Time{}
	if open {
		p.down = now
	}
	p.mu.Unlock()
	if open {
		p.log.Warn("provider is down; jobs wait, and it is probed", "provider", p.address, "failures_in_a_row", failures, "probe_every", probe, "last", said(last))
		return
	}
	p.log.Info("provider answers again", "provider", p.address, "after", now.Sub(since).Round(time.Millisecond))
}

// said is the provider's answer in a few words.
func said(r sender.Result) string {
	switch {
	case r.Status != 0 && http.StatusText(r.Status) != "":
		return fmt.Sprint(r.Status, " ", http.StatusText(r.Status))
	case r.Status != 0:
		return fmt.Sprint(r.Status)
	case r.Err != nil:
		return r.Err.Error()
	}
	return "nothing"
}

// standing is what /readyz shows. A provider that is down makes no node unready.
func (p *provider) standing() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.down.IsZero():
		return fmt.Sprintf("down since %s, last: %s", p.down.Format(time.RFC3339), said(p.failed))
	case !p.failedAt.IsZero():
		return fmt.Sprintf("%d calls failed since %s, last: %s", p.count, p.since.Format(time.RFC3339), said(p.failed))
	case p.last.Kind == 0:
		return "not called yet"
	}
	return "answers"
}

func providerDescs() (up, last *prometheus.Desc) {
	return prometheus.NewDesc("dispatcher_provider_up",
			"1 while the breaker lets calls through; 0 while the provider counts as down.", nil, nil),
		prometheus.NewDesc("dispatcher_provider_last_result",
			"1 for what became of the last call: its result, and the HTTP status (0: no answer).", []string{"result", "status"}, nil)
}

// Describe implements [prometheus.Collector].
func (p *provider) Describe(ch chan<- *prometheus.Desc) {
	up, last := providerDescs()
	ch <- up
	ch <- last
}

// Collect implements [prometheus.Collector].
func (p *provider) Collect(ch chan<- prometheus.Metric) {
	p.mu.Lock()
	up, r := 1.0, p.last
	if !p.down.IsZero() {
		up = 0
	}
	p.mu.Unlock()
	upDesc, lastDesc := providerDescs()
	ch <- prometheus.MustNewConstMetric(upDesc, prometheus.GaugeValue, up)
	if r.Kind != 0 {
		ch <- prometheus.MustNewConstMetric(lastDesc, prometheus.GaugeValue, 1, r.Kind.String(), fmt.Sprint(r.Status))
	}
}
