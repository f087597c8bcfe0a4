package offsets

// Window is how many offsets a ledger can see from its commit point on. It
// bounds the memory, and it is what makes the marks fit into the 4096
// characters that brokers allow for a commit's metadata, whatever their pattern.
const Window = 8192

// PauseWindow is where fetching stops: at three quarters of the cap the window
// is wide because one job is stuck, and more records would only wait in memory.
const PauseWindow = Window * 3 / 4

// Admission is what a ledger says to an offset that wants to be worked.
type Admission int

// The admissions.
const (
	Admitted        Admission = iota // open from now on; to be completed
	AlreadyComplete                  // complete already, by us or by a former owner
	BeyondWindow                     // beyond the window; ask again once it has moved
)

// Tracker knows which offsets of one partition are complete. It belongs to one
// assignment, does no I/O, knows no time, and holds no lock: the hub's guards it.
//
// The commit point, base, is the lowest offset that is not complete. Offsets
// that hold no job (transaction markers, aborted records, gaps) count as
// complete as soon as they have been passed.
type Tracker struct {
	low  int64 // the commit point
	end  int64 // all offsets below have been admitted or passed; base ≤ end
	top  int64 // no offset from here on is marked
	open int   // admitted and not complete
	rev  uint64
	ring [Window / 64]uint64 // bit o%spanCap: o is complete, for o in [base, base+spanCap)

	attempts AttemptList // of offsets from base on that are not complete
}

// NewTracker begins at an offset below which everything is complete.
func NewTracker(base int64) Tracker { return Tracker{low: base, end: base, top: base} }

// Low is the lowest offset that is not complete: the one to commit.
func (l *Tracker) Low() int64 { return l.low }

// End is the first offset that was neither admitted nor passed.
func (l *Tracker) End() int64 { return l.end }

// Open is how many offsets are admitted and not complete.
func (l *Tracker) Open() int { return l.open }

// Rev changes with whatever a commit would say.
func (l *Tracker) Rev() uint64 { return l.rev }

// Touch makes the present state differ from what was committed.
func (l *Tracker) Touch() { l.rev++ }

// Attempts are those of an open job that failed before; false: it did not.
func (l *Tracker) Attempts(o int64) (Attempts, bool) { return l.attempts.get(o) }

// IsComplete tells whether an offset of the window is complete.
func (l *Tracker) IsComplete(o int64) bool {
	i := uint64(o) % Window
	return l.ring[i/64]&(1<<(i%64)) != 0
}

func (l *Tracker) setComplete(o int64) {
	i := uint64(o) % Window
	l.ring[i/64] |= 1 << (i % 64)
	l.top = max(l.top, o+1)
}

func (l *Tracker) clearComplete(o int64) {
	i := uint64(o) % Window
	l.ring[i/64] &^= 1 << (i % 64)
}

// Restore takes over what a former owner had completed, and what the jobs have been
// through that it had not. It comes before the first admit. Where the log's
// beginning has overtaken the commit point, the offset there may be complete as well.
func (l *Tracker) Restore(m *Metadata) {
	base := l.low
	for i := range int64(m.Bitmap.N) {
		if m.Bitmap.Has(i) {
			l.setComplete(base + i)
		}
	}
	l.attempts = m.Attempts.from(0)
	for i := range l.attempts {
		l.attempts[i].offset += base
	}
	l.advance()
}

// SetAttempts notes what an open job has been through, where it failed.
func (l *Tracker) SetAttempts(o int64, p Attempts) {
	if p.Failures > 0 && o >= l.low && o < l.end && !l.IsComplete(o) && l.attempts.set(o, p) {
		l.rev++
	}
}

// DropRestored drops what restore brought, where it turns out not to fit the log.
func (l *Tracker) DropRestored() {
	*l = Tracker{low: l.low, end: l.end, top: l.low, rev: l.rev + 1}
}

// Admit takes in the next record. Offsets come in rising order; what lies
// between two of them holds no job.
func (l *Tracker) Admit(o int64) Admission {
	if o < l.end {
		return AlreadyComplete
	}
	if !l.SkipTo(o) || o-l.low >= Window {
		return BeyondWindow
	}
	l.end = o + 1
	if l.IsComplete(o) {
		l.advance()
		return AlreadyComplete
	}
	l.open++
	return Admitted
}

// SkipTo notes that no job lies between the last admitted offset and to. It
// returns false, and notes nothing, when the window does not reach that far.
func (l *Tracker) SkipTo(to int64) bool {
	if to <= l.end {
		return true
	}
	if l.open == 0 {
		l.jump(to)
		return true
	}
	if to-l.low > Window {
		return false
	}
	for o := l.end; o < to; o++ {
		l.setComplete(o)
	}
	l.end = to
	return true
}

// jump moves the whole window, which is allowed only while nothing is open.
func (l *Tracker) jump(to int64) {
	for o := l.low; o < min(to, l.top); o++ {
		l.clearComplete(o)
	}
	l.low, l.end, l.top = to, to, max(l.top, to)
	l.rev++
	l.advance()
}

// Complete closes an open offset. It returns whether the commit point moved.
func (l *Tracker) Complete(o int64) bool {
	if o < l.low || o >= l.end || l.IsComplete(o) {
		return false
	}
	l.setComplete(o)
	l.attempts.remove(o)
	l.open--
	l.rev++
	before := l.low
	l.advance()
	return l.low != before
}

// advance moves the commit point over what is complete. It may pass end: what
// a former owner completed needn't be fetched to be known.
func (l *Tracker) advance() {
	for l.IsComplete(l.low) {
		l.clearComplete(l.low)
		l.low++
	}
	l.end = max(l.end, l.low)
	l.top = max(l.top, l.low)
	l.attempts.dropBelow(l.low)
}

// Span is how far the window reaches, in offsets.
func (l *Tracker) Span() int64 { return l.end - l.low }

// Snapshot is what a commit has to say: the commit point, the offsets beyond it
// that are complete, and what the open ones have been through. rev tells two states
// apart.
type Snapshot struct {
	Low      int64
	Bitmap   Bitmap
	Attempts AttemptList // counted from base
	Rev      uint64
}

// Snapshot is the state to commit.
func (l *Tracker) Snapshot() Snapshot {
	s := Snapshot{Low: l.low, Rev: l.rev, Attempts: l.attempts.from(l.low)}
	for o := l.low; o < l.top; o++ {
		if l.IsComplete(o) {
			s.Bitmap.set(o - l.low)
		}
	}
	return s
}

// Merge takes over what someone else has settled: all below base, and the marks
// from there on. What is settled here stays so.
func (l *Tracker) Merge(base int64, m *Bitmap) {
	for o := l.low; o < min(base, l.end); o++ {
		l.Complete(o)
	}
	if base > l.end {
		l.SkipTo(base) // nothing below is open any more
	}
	for i := range int64(m.N) {
		switch o := base + i; {
		case !m.Has(i) || o < l.low:
		case o < l.end:
			l.Complete(o)
		default:
			l.setComplete(o)
		}
	}
	l.advance()
}
