package offsets

// Window is how many offsets a tracker covers, from the lowest incomplete one on. It bounds
// the memory. It also makes every bitmap fit into the 4096 characters that brokers allow for a
// commit's metadata.
const Window = 8192

// PauseWindow is the span at which fetching stops. At three quarters of the window, one stuck
// job keeps the span wide, and more records would only wait in memory.
const PauseWindow = Window * 3 / 4

// Admission is a tracker's answer to a fetched offset.
type Admission int

// The admissions.
const (
	Admitted        Admission = iota // open from now on
	AlreadyComplete                  // completed before, here or by a former owner
	BeyondWindow                     // try again when the window has moved
)

// Tracker knows which offsets of one partition are complete during one assignment. Its caller
// guards it with a lock.
//
// Offsets without a job (transaction markers, aborted records, gaps) count as complete when
// the tracker has skipped them.
type Tracker struct {
	low  int64 // the lowest offset that is not complete: the one to commit
	end  int64 // all offsets below were admitted or skipped; low ≤ end
	top  int64 // no offset from here on is complete
	open int   // offsets that are admitted and not complete
	rev  uint64
	ring [Window / 64]uint64 // bit o%Window: o is complete, for o in [low, low+Window)

	attempts AttemptList // of incomplete offsets from low on
}

// NewTracker makes a tracker for a partition that is complete below an offset.
func NewTracker(base int64) Tracker { return Tracker{low: base, end: base, top: base} }

// Low is the lowest offset that is not complete: the one to commit.
func (t *Tracker) Low() int64 { return t.low }

// End is the first offset that was neither admitted nor skipped.
func (t *Tracker) End() int64 { return t.end }

// Open is how many offsets are admitted and not complete.
func (t *Tracker) Open() int { return t.open }

// Rev changes whenever there is something new to commit.
func (t *Tracker) Rev() uint64 { return t.rev }

// Touch changes the revision, so that the present state is committed again.
func (t *Tracker) Touch() { t.rev++ }

// Attempts returns the attempts of an open job. It returns false if the job did not fail.
func (t *Tracker) Attempts(o int64) (Attempts, bool) { return t.attempts.get(o) }

// IsComplete tells whether an offset of the window is complete.
func (t *Tracker) IsComplete(o int64) bool {
	i := uint64(o) % Window
	return t.ring[i/64]&(1<<(i%64)) != 0
}

func (t *Tracker) setComplete(o int64) {
	i := uint64(o) % Window
	t.ring[i/64] |= 1 << (i % 64)
	t.top = max(t.top, o+1)
}

func (t *Tracker) clearComplete(o int64) {
	i := uint64(o) % Window
	t.ring[i/64] &^= 1 << (i % 64)
}

// Restore takes over the offsets that a former owner completed and the attempts of the jobs
// that it left open. Call it before the first Admit. If retention has moved the log's start
// beyond the committed offset, the offset there may be complete as well.
func (t *Tracker) Restore(m *Metadata) {
	base := t.low
	for i := range int64(m.Bitmap.N) {
		if m.Bitmap.Has(i) {
			t.setComplete(base + i)
		}
	}
	t.attempts = m.Attempts.from(0)
	for i := range t.attempts {
		t.attempts[i].offset += base
	}
	t.advance()
}

// SetAttempts sets the attempts of an open job that failed.
func (t *Tracker) SetAttempts(o int64, a Attempts) {
	if a.Failures > 0 && o >= t.low && o < t.end && !t.IsComplete(o) && t.attempts.set(o, a) {
		t.rev++
	}
}

// DropRestored drops what Restore took over, when it turns out not to fit the log.
func (t *Tracker) DropRestored() {
	*t = Tracker{low: t.low, end: t.end, top: t.low, rev: t.rev + 1}
}

// Admit opens the offset of the next record. Offsets must rise; Admit skips those between two
// records.
func (t *Tracker) Admit(o int64) Admission {
	if o < t.end {
		return AlreadyComplete
	}
	if !t.SkipTo(o) || o-t.low >= Window {
		return BeyondWindow
	}
	if o < t.end { // SkipTo moved the window, and a former owner completed o
		return AlreadyComplete
	}
	t.end = o + 1
	if t.IsComplete(o) {
		t.advance()
		return AlreadyComplete
	}
	t.open++
	return Admitted
}

// SkipTo counts the offsets from End to to as complete, since they hold no job. It returns
// false and changes nothing if the window does not reach that far.
func (t *Tracker) SkipTo(to int64) bool {
	if to <= t.end {
		return true
	}
	if t.open == 0 {
		t.jump(to)
		return true
	}
	if to-t.low > Window {
		return false
	}
	for o := t.end; o < to; o++ {
		t.setComplete(o)
	}
	t.end = to
	return true
}

// jump moves the whole window. No offset may be open.
func (t *Tracker) jump(to int64) {
	for o := t.low; o < min(to, t.top); o++ {
		t.clearComplete(o)
	}
	t.low, t.end, t.top = to, to, max(t.top, to)
	t.rev++
	t.advance()
}

// Complete completes an open offset. It returns whether Low moved.
func (t *Tracker) Complete(o int64) bool {
	if o < t.low || o >= t.end || t.IsComplete(o) {
		return false
	}
	t.setComplete(o)
	t.attempts.remove(o)
	t.open--
	t.rev++
	before := t.low
	t.advance()
	return t.low != before
}

// advance moves low over complete offsets. It may pass end: an offset that a former owner
// completed counts before it is fetched.
func (t *Tracker) advance() {
	for t.IsComplete(t.low) {
		t.clearComplete(t.low)
		t.low++
	}
	t.end = max(t.end, t.low)
	t.top = max(t.top, t.low)
	t.attempts.dropBelow(t.low)
}

// Span is how many offsets of the window are in use.
func (t *Tracker) Span() int64 { return t.end - t.low }

// Snapshot is the content of a commit: the offset to commit, the offsets beyond it that are
// complete, and the attempts of open jobs. Rev tells two states apart.
type Snapshot struct {
	Low      int64
	Bitmap   Bitmap
	Attempts AttemptList // counted from Low
	Rev      uint64
}

// Snapshot returns the state to commit.
func (t *Tracker) Snapshot() Snapshot {
	s := Snapshot{Low: t.low, Rev: t.rev, Attempts: t.attempts.from(t.low)}
	for o := t.low; o < t.top; o++ {
		if t.IsComplete(o) {
			s.Bitmap.set(o - t.low)
		}
	}
	return s
}

// Merge adds the offsets that another member has completed: all below base, and those of the
// bitmap from base on. Offsets that are complete here stay complete.
func (t *Tracker) Merge(base int64, b *Bitmap) {
	for o := t.low; o < min(base, t.end); o++ {
		t.Complete(o)
	}
	if base > t.end {
		t.SkipTo(base) // nothing below is open any more
	}
	for i := range int64(b.N) {
		switch o := base + i; {
		case !b.Has(i) || o < t.low:
		case o < t.end:
			t.Complete(o)
		default:
			t.setComplete(o)
		}
	}
	t.advance()
}
