package consumer

// spanCap is how many offsets a ledger can see from its commit point on. It
// bounds the memory, and it is what makes the marks fit into the 4096
// characters that brokers allow for a commit's metadata, whatever their pattern.
const spanCap = 8192

// pauseSpan is where fetching stops: at three quarters of the cap the window
// is wide because one job is stuck, and more records would only wait in memory.
const pauseSpan = spanCap * 3 / 4

// admission is what a ledger says to an offset that wants to be worked.
type admission int

const (
	admitOpen admission = iota // open from now on; to be completed
	admitSkip                  // complete already, by us or by a former owner
	admitFull                  // beyond the window; ask again once it has moved
)

// ledger knows which offsets of one partition are complete. It belongs to one
// assignment, does no I/O, knows no time, and holds no lock: the hub's guards it.
//
// The commit point, base, is the lowest offset that is not complete. Offsets
// that hold no job (transaction markers, aborted records, gaps) count as
// complete as soon as they have been passed.
type ledger struct {
	base int64 // the commit point
	end  int64 // all offsets below have been admitted or passed; base ≤ end
	top  int64 // no offset from here on is marked
	open int   // admitted and not complete
	rev  uint64
	ring [spanCap / 64]uint64 // bit o%spanCap: o is complete, for o in [base, base+spanCap)

	pasts pasts // of offsets from base on that are not complete
}

func newLedger(base int64) ledger { return ledger{base: base, end: base, top: base} }

func (l *ledger) marked(o int64) bool {
	i := uint64(o) % spanCap
	return l.ring[i/64]&(1<<(i%64)) != 0
}

func (l *ledger) mark(o int64) {
	i := uint64(o) % spanCap
	l.ring[i/64] |= 1 << (i % 64)
	l.top = max(l.top, o+1)
}

func (l *ledger) unmark(o int64) {
	i := uint64(o) % spanCap
	l.ring[i/64] &^= 1 << (i % 64)
}

// restore takes over what a former owner had completed, and what the jobs have been
// through that it had not. It comes before the first admit. Where the log's
// beginning has overtaken the commit point, the offset there may be complete as well.
func (l *ledger) restore(m *metadata) {
	base := l.base
	for i := range int64(m.marks.n) {
		if m.marks.done(i) {
			l.mark(base + i)
		}
	}
	l.pasts = m.pasts.shifted(0)
	for i := range l.pasts {
		l.pasts[i].at += base
	}
	l.advance()
}

// remember notes what an open job has been through, where it failed.
func (l *ledger) remember(o int64, p Attempts) {
	if p.Failures > 0 && o >= l.base && o < l.end && !l.marked(o) && l.pasts.set(o, p) {
		l.rev++
	}
}

// forget drops what restore brought, where it turns out not to fit the log.
func (l *ledger) forget() {
	*l = ledger{base: l.base, end: l.end, top: l.base, rev: l.rev + 1}
}

// admit takes in the next record. Offsets come in rising order; what lies
// between two of them holds no job.
func (l *ledger) admit(o int64) admission {
	if o < l.end {
		return admitSkip
	}
	if !l.passTo(o) || o-l.base >= spanCap {
		return admitFull
	}
	l.end = o + 1
	if l.marked(o) {
		l.advance()
		return admitSkip
	}
	l.open++
	return admitOpen
}

// passTo notes that no job lies between the last admitted offset and to. It
// returns false, and notes nothing, when the window does not reach that far.
func (l *ledger) passTo(to int64) bool {
	if to <= l.end {
		return true
	}
	if l.open == 0 {
		l.jump(to)
		return true
	}
	if to-l.base > spanCap {
		return false
	}
	for o := l.end; o < to; o++ {
		l.mark(o)
	}
	l.end = to
	return true
}

// jump moves the whole window, which is allowed only while nothing is open.
func (l *ledger) jump(to int64) {
	for o := l.base; o < min(to, l.top); o++ {
		l.unmark(o)
	}
	l.base, l.end, l.top = to, to, max(l.top, to)
	l.rev++
	l.advance()
}

// complete closes an open offset. It returns whether the commit point moved.
func (l *ledger) complete(o int64) bool {
	if o < l.base || o >= l.end || l.marked(o) {
		return false
	}
	l.mark(o)
	l.pasts.remove(o)
	l.open--
	l.rev++
	before := l.base
	l.advance()
	return l.base != before
}

// advance moves the commit point over what is complete. It may pass end: what
// a former owner completed needn't be fetched to be known.
func (l *ledger) advance() {
	for l.marked(l.base) {
		l.unmark(l.base)
		l.base++
	}
	l.end = max(l.end, l.base)
	l.top = max(l.top, l.base)
	l.pasts.cut(l.base)
}

// span is how far the window reaches, in offsets.
func (l *ledger) span() int64 { return l.end - l.base }

// snapshot is what a commit has to say: the commit point, the offsets beyond it
// that are complete, and what the open ones have been through. rev tells two states
// apart.
type snapshot struct {
	base  int64
	marks marks
	pasts pasts // counted from base
	rev   uint64
}

func (l *ledger) snapshot() snapshot {
	s := snapshot{base: l.base, rev: l.rev, pasts: l.pasts.shifted(l.base)}
	for o := l.base; o < l.top; o++ {
		if l.marked(o) {
			s.marks.set(o - l.base)
		}
	}
	return s
}
