package schedule

import "testing"

// addOf adds jobs of these tenants behind those that were fetched, each with a key of its own.
func addOf(p *Partition, tenants ...string) {
	next := p.fetched + int64(len(tenants))
	batch := &Batch{Next: next, Stable: next}
	for i, tenant := range tenants {
		d := new(Delivery)
		d.Job.Topic, d.Job.Partition, d.Job.Offset = p.src.Topic, p.id, p.fetched+int64(i)
		Prepare(d, p, Prepared{Size: jobBytes, Tenant: tenant})
		batch.Jobs = append(batch.Jobs, d)
	}
	p.Add(batch)
}

// many are n times the same tenant.
func many(tenant string, n int) (all []string) {
	for range n {
		all = append(all, tenant)
	}
	return all
}

// A tenant behind a long run of another one waits for no more than its turn, and is not stopped by jobs in flight.
func TestATenantBehindALongRunTakesTurns(t *testing.T) {
	t.Parallel()
	l := NewFairLane("bulk", 100)
	w := newBench(l)
	p := partition(w.NewAssignment(), l, 0)
	addOf(p, many("a", 5000)...)
	addOf(p, many("b", 10)...)
	const most = 1 + 5010/mostFilled // each job that is taken makes so many more ready
	taken := 0
	for reached := false; !reached; taken++ {
		d := w.Take()
		reached = d.tenant == "b"
		d.Done(Outcome{})
	}
	if taken > most {
		t.Errorf("got the first job of the other tenant after %d, want it after %d at most", taken, most)
	}
	got := map[string]int{}
	for range 18 {
		d := w.Take()
		got[d.tenant]++
		d.Done(Outcome{})
	}
	if got["a"] != 9 || got["b"] != 9 {
		t.Errorf("got %v of 18 jobs, want 9 of each tenant", got)
	}
}

// The jobs in flight of a fair lane stay within its limit, and a place that is free again gives a notice.
func TestAFairLaneKeepsItsLimit(t *testing.T) {
	t.Parallel()
	l := NewFairLane("bulk", 2)
	w := newBench(l)
	addOf(partition(w.NewAssignment(), l, 0), many("a", 10)...)
	first, second := w.Take(), w.Take()
	if w.Take() != nil || w.ReadyJobs() != 0 || w.ReadyLanes() != 0 || second == nil {
		t.Fatalf("got %d jobs to take beside two in flight, want none", w.ReadyJobs())
	}
	for len(w.Ready()) > 0 {
		<-w.Ready()
	}
	first.Done(Outcome{})
	if len(w.Ready()) != 1 || w.ReadyJobs() != 1 || w.ReadyLanes() != 1 {
		t.Errorf("got %d notices and %d jobs to take, want one of each", len(w.Ready()), w.ReadyJobs())
	}
}

// Jobs of a fair lane that a limit refuses, however many, leave other lanes their places in memory.
func TestRefusedJobsOfAFairLaneStopNoOther(t *testing.T) {
	t.Parallel()
	fair, other := NewFairLane("bulk", 4), NewLane("urgent", 4)
	w := newBench(other, fair)
	w.sleepers.MaxJobs = 40
	a := w.NewAssignment()
	addOf(partition(a, fair, 0), many("a", 200)...)
	if n := len(w.deferAll()); n != 200 || w.SleepersFull() {
		t.Fatalf("got %d of 200 jobs deferred, and the bound reached: %v", n, w.SleepersFull())
	}
	addJobs(partition(a, other, 1), 0)
	if d := w.Take(); d == nil || d.part.src.Lane != other {
		t.Errorf("got %v, want the job of the other lane", d)
	}
	a.Drain()
	if jobs, bytes := w.sleepers.Count(); jobs != 0 || bytes != 0 {
		t.Errorf("got %d jobs asleep in %d bytes after the drain, want none", jobs, bytes)
	}
}
