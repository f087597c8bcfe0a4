package limits

import (
	"context"
	"time"

	"dispatcher/internal/timetext"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
)

// QuotaUse is how much of a quota is used.
type QuotaUse struct {
	Used int64  `json:"used"`
	Ends string `json:"ends,omitempty"` // when the window of the calendar is over; absent: the quota is rolling
}

// quotaUse is nil where there is no quota, or it has a key.
func (r Reader) quotaUse(ctx context.Context, operator *control.Control, d *Document, clock time.Time) (*QuotaUse, error) {
	if !d.Settings.IsQuota() || d.Key != "" {
		return nil, nil //nolint:nilnil // there is none
	}
	used, err := operator.Used(ctx, limit.HashOf(""), d.Settings.Terms, r.First())
	if err != nil {
		return nil, err
	}
	return usedOf(d.Settings, used.State, clock), nil
}

// usedOf is how much of a quota is used as its state says.
func usedOf(now limit.Settings, state string, clock time.Time) *QuotaUse {
	use := QuotaUse{Used: now.Used(state, clock)}
	if bounds := now.Bounds(clock); bounds != nil {
		use.Ends = timetext.Stamp(bounds[2])
	}
	return &use
}

// Loss is what a quota with a key waits for: nobody knows how much its values had used.
type Loss struct {
	At    string `json:"at"`    // when Redis lost the counts, or may have
	Until string `json:"until"` // no value may use a unit before
}

// lossOf is nil where a limit does not wait for a loss.
func lossOf(o control.Opening, clock time.Time) *Loss {
	if o.Lost.IsZero() || !o.At.After(clock) {
		return nil
	}
	return &Loss{At: timetext.Stamp(o.Lost), Until: timetext.Stamp(o.At)}
}

// Value is what holds for one value of a limit's key.
type Value struct {
	Hash      string   `json:"hash"`
	Cap       int64    `json:"cap"`
	Exception bool     `json:"exception"`           // it has a cap of its own
	Until     string   `json:"until,omitempty"`     // when its own cap ends
	NextInS   *float64 `json:"next_in_s,omitempty"` // until the next unit may go, about; absent: of a quota
	// BlockedUntil is when a block ends that the provider asked for; absent: there is none.
	BlockedUntil string `json:"blocked_until,omitempty"`
}

// value reads what holds for one value, and what is used of a quota for it. No value may use a unit before the limit opens.
func (r Reader) value(ctx context.Context, operator *control.Control, of limit.Hash, now limit.Settings, opens, clock time.Time) (*Value, *QuotaUse, error) {
	terms := now.For(of, clock)
	v := Value{Hash: of.String(), Cap: terms.Cap}
	if one, found := now.Exceptions.Find(of, clock); found {
		v.Exception, v.Until = true, timetext.Stamp(one.Until)
	}
	used, err := operator.Used(ctx, of, terms, r.First())
	if err != nil {
		return nil, nil, err
	}
	if now.IsQuota() {
		return &v, usedOf(now, used.State, clock), nil
	}
	next := max(0, used.Next.Sub(clock), opens.Sub(clock)).Seconds()
	v.NextInS = &next
	if used.Blocked.After(clock) {
		v.BlockedUntil = timetext.Exact(used.Blocked)
	}
	return &v, nil, nil
}

// Exception is the cap that one value has of its own.
type Exception struct {
	Hash  string `json:"hash"`
	Cap   int64  `json:"cap"`
	Until string `json:"until,omitempty"`
}

// ExceptionsOf are all of them.
func ExceptionsOf(e limit.Exceptions) []Exception {
	all, _ := e.All() // settings that were read can be taken apart
	list := make([]Exception, len(all))
	for i, one := range all {
		list[i] = Exception{one.Of.String(), one.Cap, timetext.Stamp(one.Until)}
	}
	return list
}
