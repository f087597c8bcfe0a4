package sleepers

// Bound counts the jobs that sleep on a node.
type Bound struct {
	MaxJobs  int
	MaxBytes int

	jobs  int
	bytes int
	noted bool // Changed has returned that it is reached
}

// Add counts a job of so many bytes.
func (b *Bound) Add(bytes int) { b.jobs, b.bytes = b.jobs+1, b.bytes+bytes }

// Remove counts a job no more. room: partitions that waited for it may go on, since fewer
// sleep than the bound, or than half of it, for the first time.
func (b *Bound) Remove(bytes int) (room bool) {
	wasFull := b.Full()
	b.jobs, b.bytes = b.jobs-1, b.bytes-bytes
	halved := b.jobs == b.MaxJobs/2-1 || b.bytes < b.MaxBytes/2 && b.bytes+bytes >= b.MaxBytes/2
	return halved || wasFull && !b.Full()
}

// Count is how many jobs sleep, and their bytes.
func (b *Bound) Count() (jobs, bytes int) { return b.jobs, b.bytes }

// Full tells whether as many sleep as may.
func (b *Bound) Full() bool { return b.jobs >= b.MaxJobs || b.bytes >= b.MaxBytes }

// BelowHalf tells whether so few sleep that no partition has to leave places to others.
func (b *Bound) BelowHalf() bool { return b.jobs < b.MaxJobs/2 && b.bytes < b.MaxBytes/2 }

// PartUsed tells whether one of so many partitions has its part of half of the bound: by its jobs that wait for a limit or, where the
// bytes of the node are above their half, by the bytes of all its sleepers.
func (b *Bound) PartUsed(deferred, bytes, partitions int) bool {
	if deferred == 0 || partitions < 2 {
		return false
	}
	half, halfBytes := b.MaxJobs/2, b.MaxBytes/2
	return deferred >= half/partitions || b.bytes >= halfBytes && bytes >= halfBytes/partitions
}

// Changed tells whether the bound is reached, and whether that is new since the last call.
func (b *Bound) Changed() (full, changed bool) {
	full = b.Full()
	changed = full != b.noted
	b.noted = full
	return full, changed
}
