package rules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"dispatcher/internal/expression"
)

const (
	pollEvery   = 2 * time.Second // unless [Watcher.Hear] is called
	callTimeout = time.Second
	pingEvery   = 30 * time.Second // of the subscription: each ping wakes Redis, and what it misses meanwhile is found all the same
)

// Watcher keeps the rules that are in force at hand, for one node. Make it with [NewWatcher]; it can be run once.
type Watcher struct {
	store   *Store
	log     *slog.Logger
	changed func()
	set     atomic.Pointer[set]
	failed  *prometheus.CounterVec
	heard   chan int64    // revisions that are in force
	loaded  chan struct{} // closed once the rules were read
	failing bool          // the last reading failed, and that was logged
	missing bool          // the last reading found no list
	faulty  int64         // the revision whose list could not be read, as was logged; -1: none
}

// WatcherOptions configures a [Watcher].
type WatcherOptions struct {
	Store      *Store
	Logger     *slog.Logger
	Changed    func()                // called when other rules are in force
	Registerer prometheus.Registerer // nil: no metrics
}

// NewWatcher makes a watcher, which knows no rules yet.
func NewWatcher(o WatcherOptions) *Watcher {
	w := &Watcher{store: o.Store, log: o.Logger, changed: o.Changed, heard: make(chan int64, 1), loaded: make(chan struct{}), faulty: -1, failed: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dispatcher_rule_errors_total", Help: "Jobs on which the expression of a rule failed, so that the rule did not match them.",
	}, []string{"rule"})}
	w.set.Store(&set{})
	if o.Registerer != nil {
		o.Registerer.MustRegister(w.failed)
	}
	return w
}

// set are the rules of one revision.
type set struct {
	list  List
	rules []compiled // those that cancel first
}

type compiled struct {
	Rule

	when expression.Condition
	ends time.Time // of the node's clock
}

// Run watches until ctx ends, and returns nil then.
func (w *Watcher) Run(ctx context.Context) error {
	sub := w.store.rdb.Subscribe(ctx, w.store.key())
	defer func() { _ = sub.Close() }() // nothing is under way that its error could concern
	messages := sub.Channel(redis.WithChannelHealthCheckInterval(pingEvery))
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-messages:
			w.read(ctx)
		case <-timer.C:
			w.read(ctx)
		case revision := <-w.heard:
			if !w.compare(ctx, revision) {
				continue
			}
		}
		timer.Reset(pollEvery)
	}
}

// compare reads the rules where others are in force than the node knows, and reports whether that takes the place of a poll. It does not
// where neither Redis nor the node has a list: begin wants the time between two polls to pass.
func (w *Watcher) compare(ctx context.Context, revision int64) (polled bool) {
	known := w.Revision()
	if revision != known {
		w.read(ctx)
	}
	return revision != none || known != none
}

// Hear says which revision is in force, so that the watcher need not ask.
func (w *Watcher) Hear(revision int64) {
	select {
	case w.heard <- revision:
	default: // it is busy, and hears it again or asks
	}
}

// read takes the rules over that Redis has. Where Redis has lost them, those that the node knows stay, and are put back.
func (w *Watcher) read(parent context.Context) {
	ctx, cancel := context.WithTimeout(parent, callTimeout)
	defer cancel()
	list, now, err := w.store.readAll(ctx)
	if err != nil {
		if !w.failing && parent.Err() == nil {
			w.log.Warn("the rules that cancel and hold jobs could not be read, trying again; those that are known stay in force", "error", err)
		}
		w.failing = true
		return
	}
	w.failing = false
	defer w.know()
	w.tellFault(list)
	old := w.set.Load()
	w.begin(ctx, list.Revision == none && old.list.Revision == none)
	if list.Revision < old.list.Revision {
		known := old.list
		known.Rules = current(known.Rules, now)
		w.putBack(ctx, list.Revision, known)
	}
	if list.Revision <= old.list.Revision {
		return
	}
	w.set.Store(w.compile(list, now, time.Now()))
	w.forget(old, list)
	w.changed()
}

// begin writes down that there are no rules where neither Redis nor this node has a list, for the second time: in between, a node that
// knows one would have put it back. Its error shows at the next reading.
func (w *Watcher) begin(ctx context.Context, missing bool) {
	if missing && w.missing {
		_ = w.store.begin(ctx)
	}
	w.missing = missing
}

// tellFault logs once for each revision that its list can't be read.
func (w *Watcher) tellFault(l List) {
	if l.fault == nil || l.Revision == w.faulty {
		return
	}
	w.faulty = l.Revision
	w.log.Error("what Redis keeps of the rules can't be read, and counts as empty; the next rule that is made replaces it", "revision", l.Revision, "error", l.fault)
}

// putBack has Redis keep again what it has lost, for the nodes that start later.
func (w *Watcher) putBack(ctx context.Context, older int64, known List) {
	switch done, err := w.store.putBack(ctx, older, known); {
	case err != nil:
		w.log.Warn("Redis has lost rules that this node knows, and they could not be put back, trying again", "rules", len(known.Rules), "error", err)
	case done:
		w.log.Warn("Redis had lost rules that this node knows, and they were put back", "rules", len(known.Rules))
	}
}

// forget drops the series of the rules that are gone: each new rule has an id of its own, so they would pile up.
func (w *Watcher) forget(old *set, list List) {
	for _, r := range old.rules {
		if !slices.ContainsFunc(list.Rules, func(is Rule) bool { return is.ID == r.ID }) {
			w.failed.DeleteLabelValues(r.ID)
		}
	}
}

// know notes that the rules were read.
func (w *Watcher) know() {
	select {
	case <-w.loaded:
	default:
		close(w.loaded)
	}
}

// Ready returns why the node can't call jobs: the rules were not read yet. A nil watcher has none to read.
func (w *Watcher) Ready() error {
	if w == nil {
		return nil
	}
	select {
	case <-w.loaded:
		return nil
	default:
		return errors.New("the rules that cancel and hold jobs were not read yet, and the node calls no job before; does Redis answer?")
	}
}

// Await waits until the rules were read once: before that no job may be called. A nil watcher has none to wait for.
func (w *Watcher) Await(ctx context.Context) {
	if w == nil {
		return
	}
	select {
	case <-w.loaded:
	case <-ctx.Done():
	}
}

// compile makes a set. redis and local are the same moment by both clocks. It leaves out the rules that this version can't read.
func (w *Watcher) compile(l List, redis, local time.Time) *set {
	s := &set{list: l}
	for _, r := range l.Rules {
		when, err := r.compile()
		if err != nil { // another version of dispatcher wrote it
			w.log.Error("a rule can't be read, and does not act on this node", "rule", r.ID, "error", err)
			continue
		}
		w.failed.WithLabelValues(r.ID) // exists before the first failure
		w.log.Info("a rule is in force", "rule", r.ID, "kind", string(r.Kind), "when", r.When, "until", r.Until, "by", r.By)
		s.rules = append(s.rules, compiled{r, when, local.Add(r.Until.Sub(redis))})
	}
	slices.SortStableFunc(s.rules, func(a, b compiled) int { return cmp.Compare(a.Kind, b.Kind) }) // cancel comes before hold
	return s
}

// compile returns the condition of a rule, or why this version can't read the rule.
func (r Rule) compile() (when expression.Condition, err error) {
	switch {
	case r.fault != nil:
		return when, r.fault
	case r.Kind != Cancel && r.Kind != Hold:
		return when, fmt.Errorf("kind: %q is not known", r.Kind)
	}
	return expression.CompileCondition(r.When)
}

// Revision is that of the newest rules that the node knows; 0: it knows none.
func (w *Watcher) Revision() int64 {
	if w == nil {
		return 0
	}
	return w.set.Load().list.Revision
}

// Match is the rule that a job is under; nil: none. job makes what expressions see, and is called only if there are rules. A nil
// watcher has none.
func (w *Watcher) Match(job func() *expression.Job, now time.Time) *Rule {
	if w == nil {
		return nil
	}
	s := w.set.Load()
	if len(s.rules) == 0 {
		return nil
	}
	j := job()
	for i := range s.rules {
		r := &s.rules[i]
		if !now.Before(r.ends) {
			continue
		}
		matches, err := r.when.Holds(j)
		if err != nil {
			w.failed.WithLabelValues(r.ID).Inc()
		}
		if matches {
			return &r.Rule
		}
	}
	return nil
}
