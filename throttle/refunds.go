package throttle

import (
	"slices"
	"sync"
	"time"

	"dispatcher/throttle/internal/script"
)

// charge is what a slot counts: its job, on all limits that give back what is not used.
type charge struct {
	job   Request
	at    int64 // the slot on Redis's clock, in µs
	epoch int64
}

// chargeOf is nil where nothing is given back.
func (r *reserver) chargeOf(job Request, at int64) *charge {
	if len(job.Passes) == 0 && !r.kind.Refunds {
		return nil
	}
	return &charge{job, at, r.clock.Epoch}
}

// refunds are the slots that were not used since the last reservation. Others may have their
// units.
type refunds struct {
	mu  sync.Mutex
	all []*charge
}

// maxRefunds bounds those of one call. The units of the rest are lost.
const maxRefunds = 1000

func (r *refunds) add(c *charge) {
	if c == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) < maxRefunds {
		r.all = append(r.all, c)
	}
}

func (r *refunds) some() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all) > 0
}

// take takes those of an epoch. The others mean nothing any more.
func (r *refunds) take(epoch int64) []*charge {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all = nil
	return slices.DeleteFunc(all, func(c *charge) bool { return c.epoch != epoch })
}

// unusedOf is what a call says of slots that were not used, to the first limit.
func (r *reserver) unusedOf(slots []*charge) (unused []script.Unused) {
	if !r.kind.Refunds {
		return nil
	}
	for _, c := range slots {
		unused = append(unused, script.Unused{Slot: c.at, Units: max(1, c.job.Cost)})
	}
	return unused
}

// heedRefunds ends a refusal: units that were not used are free, and the job that they were
// granted to asks for them again.
func (r *reserver) heedRefunds() {
	if r.kind.Refunds && r.refunds.some() {
		r.refusedUntil, r.less = time.Time{}, false
	}
}
