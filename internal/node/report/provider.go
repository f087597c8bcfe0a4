package report

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dispatcher/internal/tally"
	"dispatcher/sender"
)

// Provider reports what the provider answers. Make it with [New].
type Provider struct {
	log     *slog.Logger
	address string // of the provider, without credentials

	failures *tally.Tally[sender.Result]

	mu       sync.Mutex
	last     sender.Result // of the last call
	failed   sender.Result // of the last call that failed
	failedAt time.Time     // zero: no call failed since calls last succeeded for a while
	since    time.Time     // of the first failure since then
	count    int           // failures since then
	down     time.Time     // when the breaker opened; zero: it is closed
}

const (
	mostFailures = 16               // kinds of failure with lines of their own
	settledAfter = 10 * time.Second // without a failure: calls succeed again
	flushEvery   = time.Second
)

// New makes a report of the provider at this address, which holds no credentials.
func New(address string, log *slog.Logger, reg prometheus.Registerer) *Provider {
	p := &Provider{log: log, address: address, failures: tally.New[sender.Result](mostFailures)}
	if reg != nil {
		reg.MustRegister(p)
	}
	return p
}

// Run logs the last failures of each kind, and that calls succeed again, until ctx
// ends.
func (p *Provider) Run(ctx context.Context) {
	flush := time.NewTicker(flushEvery)
	defer flush.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-flush.C:
		}
		for _, sum := range p.failures.Due(time.Now()) {
			p.logFailures(sum)
		}
		p.logSuccess(time.Now())
	}
}

// Note records the result of a call.
func (p *Provider) Note(r sender.Result) {
	if r.Kind == sender.NotSent {
		return // no call was made
	}
	now := time.Now()
	if !p.record(r, now) {
		return
	}
	if sum, due := p.failures.Note(now, kindOf(r), r); due {
		p.logFailures(sum)
	}
}

// record returns whether the call failed.
func (p *Provider) record(r sender.Result, now time.Time) (failed bool) {
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

// kindOf distinguishes failures by status or, without one, by the network's error.
func kindOf(r sender.Result) string {
	if r.Status != 0 {
		return fmt.Sprint(r.Kind, r.Status)
	}
	// Texts with a port or a time would make each failure a kind of its own.
	if name, ok := errors.AsType[*net.DNSError](r.Err); ok {
		return fmt.Sprint(r.Kind, "name", name.IsNotFound, name.IsTimeout)
	}
	if certificate, ok := errors.AsType[x509.CertificateInvalidError](r.Err); ok {
		return fmt.Sprint(r.Kind, "certificate", certificate.Reason)
	}
	err := r.Err
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next // the innermost of the others holds none
	}
	return fmt.Sprint(r.Kind, err)
}

// remedy is what an operator can do about a failed call; empty: not known.
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

// logFailures writes one line about failures of one kind.
func (p *Provider) logFailures(sum tally.Sum[sender.Result]) {
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

// logSuccess logs once that calls succeed again.
func (p *Provider) logSuccess(now time.Time) {
	p.mu.Lock()
	succeeds := p.last.Kind == sender.Accepted || p.last.Kind == sender.Rejected
	over := !p.failedAt.IsZero() && succeeds && p.down.IsZero() && now.Sub(p.failedAt) >= settledAfter
	count, since := p.count, p.since
	if over {
		p.failedAt = time.Time{}
	}
	p.mu.Unlock()
	if over {
		p.log.Info("calls to the provider succeed again", "provider", p.address, "failed", count, "since", since)
	}
}

// BreakerChanged records and logs that the circuit breaker opened, or closed again.
func (p *Provider) BreakerChanged(open bool, failures int, probe time.Duration) {
	now := time.Now()
	p.mu.Lock()
	since, last := p.down, p.failed
	p.down = time.Time{}
	if open {
		p.down = now
	}
	p.mu.Unlock()
	if open {
		p.log.Warn("provider is down; jobs wait, and it is probed", "provider", p.address, "failures_in_a_row", failures, "probe_every", probe, "last", answerOf(last))
		return
	}
	p.log.Info("provider answers again", "provider", p.address, "after", now.Sub(since).Round(time.Millisecond))
}

// answerOf is the provider's answer in a few words.
func answerOf(r sender.Result) string {
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

// Down tells whether the circuit breaker is open.
func (p *Provider) Down() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.down.IsZero()
}

// State is what /readyz shows. A provider that is down makes no node unready.
func (p *Provider) State() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.down.IsZero():
		return fmt.Sprintf("down since %s, last: %s", p.down.Format(time.RFC3339), answerOf(p.failed))
	case !p.failedAt.IsZero():
		return fmt.Sprintf("%d calls failed since %s, last: %s", p.count, p.since.Format(time.RFC3339), answerOf(p.failed))
	case p.last.Kind == 0:
		return "not called yet"
	}
	return "answers"
}

func providerDescs() (up, last *prometheus.Desc) {
	return prometheus.NewDesc("dispatcher_provider_up",
			"1 while the breaker lets calls through; 0 while the provider counts as down.", nil, nil),
		prometheus.NewDesc("dispatcher_provider_last_result",
			"1 for the result of the last call, and its HTTP status (0: no answer).", []string{"result", "status"}, nil)
}

// Describe implements [prometheus.Collector].
func (p *Provider) Describe(ch chan<- *prometheus.Desc) {
	up, last := providerDescs()
	ch <- up
	ch <- last
}

// Collect implements [prometheus.Collector].
func (p *Provider) Collect(ch chan<- prometheus.Metric) {
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
