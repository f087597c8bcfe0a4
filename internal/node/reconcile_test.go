package node

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"dispatcher/configs"
	"dispatcher/consumer"
	"dispatcher/internal/node/gates"
	"dispatcher/job"
	"dispatcher/sender"
	"dispatcher/throttle/limit"
)

// counting is a provider that counts so many units for each call.
func counting(units int64) func(string, int) sender.Result {
	return func(string, int) sender.Result {
		result := accepted
		result.Units = &units
		return result
	}
}

// took is how long the calls of some jobs took, from the first to the last.
func (b *bubble) took(jobs int) time.Duration {
	b.Helper()
	first, last := time.Time{}, time.Time{}
	for i := range jobs {
		calls := b.called(strconv.Itoa(i))
		if len(calls) != 1 {
			b.Fatalf("got %d calls of job %d, want one", len(calls), i)
		}
		if first.IsZero() || calls[0].Before(first) {
			first = calls[0]
		}
		if calls[0].After(last) {
			last = calls[0]
		}
	}
	return last.Sub(first)
}

// Units that the provider counts beyond what the jobs said are charged: the fleet sends as many
// units as the provider counts.
func TestUnitsThatWereMissingAreCharged(t *testing.T) {
	t.Parallel()
	const jobs, each = 300, 3
	account := configs.Limit{Name: "provider", Guard: "10ms", Spec: limit.Spec{Terms: limit.Terms{Algorithm: limit.TokenBucket, Contract: limit.Contract{
		Cap: 105, Window: time.Second, Burst: 1, MaxCost: 5, Guard: 10 * time.Millisecond, Lateness: 3 * time.Millisecond, Horizon: 200 * time.Millisecond,
	}}}} // 101 units in 1.01 s
	log := account
	log.Algorithm = limit.SlidingWindowLog
	for name, s := range map[string]setup{"of the fleet": {limits: []configs.Limit{account}}, "of the fleet, by the log": {limits: []configs.Limit{log}}, "of the node": {rate: 105, maxCost: 5}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.workers, s.attempts, s.failures, s.answer = 64, 3, 20, counting(each)
			inBubble(t, s, func(b *bubble) {
				b.writeMany(jobs)
				b.until(time.Minute, "all are settled", func() bool { return b.settled() == jobs })
				if got := b.calledUnits(); got != jobs*each {
					t.Errorf("got %v units that calls counted, want the %d that the provider named", got, jobs*each)
				}
				want := jobs * each * 10 * time.Millisecond
				if took := b.took(jobs); took < want*9/10 || took > want*11/10 {
					t.Errorf("%d jobs of %d units took %v, want about %v", jobs, each, took, want)
				}
			})
		})
	}
}

// Units that the provider does not count are granted again, by a limit that counts a window.
func TestUnitsThatWereTooManyAreGrantedAgain(t *testing.T) {
	t.Parallel()
	const jobs, said, counted = 200, 5, 1
	account := configs.Limit{Name: "provider", Guard: "10ms", Spec: limit.Spec{Terms: limit.Terms{Algorithm: limit.SlidingWindowLog, Contract: limit.Contract{
		Cap: 100, Window: time.Second, Burst: 1, MaxCost: said, Guard: 10 * time.Millisecond, Lateness: 3 * time.Millisecond, Horizon: 200 * time.Millisecond,
	}}}}
	s := setup{limits: []configs.Limit{account}, workers: 128, attempts: 3, failures: 20, answer: counting(counted)}
	inBubble(t, s, func(b *bubble) {
		var all []job.Record
		for i := range jobs {
			all = append(all, costing(strconv.Itoa(i), said))
		}
		b.write(all...)
		b.until(time.Minute, "all are settled", func() bool { return b.settled() == jobs })
		if took := b.took(jobs); took > jobs*said*10*time.Millisecond/2 { // 10 s if all were counted
			t.Errorf("%d jobs of %d units, of which the provider counts %d, took %v", jobs, said, counted, took)
		}
		for i := range jobs { // no window holds more than the provider allows
			at, n := b.called(strconv.Itoa(i))[0], 0
			for k := range jobs {
				if other := b.called(strconv.Itoa(k))[0]; !other.Before(at) && other.Sub(at) < time.Second {
					n += counted
				}
			}
			if n > 100 {
				t.Fatalf("got %d units in a second, want at most 100", n)
			}
		}
		if fewer := b.metric("dispatcher_limit_reconciled_units_total", "fewer"); fewer != jobs*(said-counted) {
			t.Errorf("got %v units fewer, want %d", fewer, jobs*(said-counted))
		}
	})
}

// Units that come back let a job pass that waits for a quota, although nobody asks for a slot.
func TestUnitsComeBackWhereNobodyAsks(t *testing.T) {
	t.Parallel()
	const jobs, said, counted = 4, 800, 50
	limits := limitsOf(10_000, 1000)
	limits[0].Algorithm, limits[0].MaxCost = limit.SlidingWindowLog, said
	limits[1].Key, limits[1].Window, limits[1].MaxCost, limits[1].Calendar = "", 0, said, "day"
	s := gated(limits)
	s.answer = counting(counted)
	inBubble(t, s, func(b *bubble) {
		var all []job.Record
		for i := range jobs {
			all = append(all, costing(strconv.Itoa(i), said))
		}
		b.write(all...)
		b.until((jobs+1)*gates.Recheck, "all are settled", func() bool { return b.settled() == jobs })
	})
}

// A provider that lies about units slows the fleet down to a call or two in a window, no more.
func TestAProviderThatLiesAboutUnitsIsBounded(t *testing.T) {
	t.Parallel()
	const jobs = 12
	for _, algorithm := range []string{limit.TokenBucket, limit.SlidingWindowLog, limit.SlidingWindowCounter, limit.FixedWindow, limit.GCRA} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			account := configs.Limit{Name: "provider", Guard: "10ms", Spec: limit.Spec{Terms: limit.Terms{Algorithm: algorithm, Contract: limit.Contract{
				Cap: 105, Window: time.Second, Burst: 5, MaxCost: 5, Guard: 10 * time.Millisecond, Lateness: 3 * time.Millisecond, Horizon: 200 * time.Millisecond,
			}}}}
			if algorithm != limit.GCRA {
				account.Burst = 1
			}
			s := setup{limits: []configs.Limit{account}, workers: 1, attempts: 3, failures: 20, answer: counting(job.MaxCost)}
			inBubble(t, s, func(b *bubble) {
				b.writeMany(jobs)
				b.until(jobs*3*time.Second, "all are settled", func() bool { return b.settled() == jobs })
				if more := b.metric("dispatcher_limit_reconciled_units_total", "more"); more != jobs*(job.MaxCost-1) {
					t.Errorf("got %v units more, want all of them counted", more)
				}
				if took := b.took(jobs); took < jobs/2*time.Second/2 {
					t.Errorf("%d calls that use up a window each took %v", jobs, took)
				}
			})
		})
	}
}

// A job that a quota holds says until when, although it is looked at again every few seconds; also one for which nobody asks, since
// another one was refused.
func TestAJobSaysUntilWhenAQuotaHoldsIt(t *testing.T) {
	t.Parallel()
	limits := limitsOf(100, 1)
	limits[1].Key, limits[1].Window, limits[1].Calendar = "", 0, "day"
	inBubble(t, gated(limits), func(b *bubble) {
		for waiting := range 4 {
			b.write(to("anna", waiting))
			var found []consumer.Stay
			b.until(time.Minute, "all but the first job wait", func() bool {
				found = b.consumer.Find(func(*consumer.Delivery) bool { return true }, 10)
				return b.settled() == 1 && len(found) == waiting &&
					!slices.ContainsFunc(found, func(s consumer.Stay) bool { return s.For != consumer.WaitsForLimit })
			})
			for _, s := range found {
				if wait := time.Until(s.Until); wait < time.Hour {
					b.Errorf("got a job that waits for %v, want until the day is over", wait)
				}
			}
		}
	})
}
