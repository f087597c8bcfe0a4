package configs

import (
	"time"

	"dispatcher/throttle"
)

// Bounds of the ledger. A window of less than ten holds would be mostly claims.
const (
	minLedgerWindow = time.Minute
	maxLedgerWindow = 31 * 24 * time.Hour
	minLedgerMargin = 20 * time.Millisecond
	maxLedgerMargin = time.Minute
	holdsInWindow   = 10
)

// ledger: it lies in the fleet's Redis, and nothing is called without that.
func (f *faults) ledger(c Config) {
	l, timeout := c.Ledger, c.Sender.HTTP.Timeout
	f.refuse(l.Window < minLedgerWindow || l.Window > maxLedgerWindow, "ledger.window", l.Window, "must be from 1m to 744h")
	f.refuse(l.Margin < minLedgerMargin || l.Margin > maxLedgerMargin, "ledger.margin", l.Margin, "must be from 20ms to 1m")
	if !l.Enabled {
		return
	}
	hold := l.Hold(timeout)
	f.refuse(hold > l.Window/holdsInWindow, "ledger.window", l.Window,
		"must be at least ten times the hold of %s: sender.http.timeout of %s and twice ledger.margin of %s", hold, timeout, l.Margin)
	head := c.Kafka.HeadTimeout
	f.refuse(head != 0 && head <= hold, "kafka.head_timeout", head,
		"must be above the ledger's hold of %s (sender.http.timeout and twice ledger.margin), or 0s for none: a job may have to wait for that", hold)
	for _, limit := range c.Limits {
		f.refuse(limit.Degraded == DegradedReserve, "ledger.enabled", l.Enabled,
			"can't be together with degraded: reserve: without Redis no job can be claimed")
		f.refuse(limit.Scope == string(throttle.ScopeNode), "ledger.enabled", l.Enabled,
			"can't be together with scope: node: the ledger lies in the fleet's Redis, which is not asked then")
	}
}
