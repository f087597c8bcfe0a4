package offsets

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// Attempts counts the calls of a job so far.
type Attempts struct {
	Calls    int // that left the process
	Failures int // calls that count against the attempts allowed
}

// AttemptList holds the attempts of the open jobs of a partition that failed, in the order of
// their offsets. The metadata of a commit holds it, so that a new owner does not call a job
// more often than allowed. See [Metadata] for the format.
type AttemptList []attemptsAt

// attemptsAt is the attempts of the job at one offset.
type attemptsAt struct {
	offset int64 // in a commit, counted from the committed offset
	Attempts
}

func (l AttemptList) find(offset int64) (int, bool) {
	return slices.BinarySearchFunc(l, offset, func(one attemptsAt, offset int64) int { return cmp.Compare(one.offset, offset) })
}

// get returns the attempts of the job at an offset.
func (l AttemptList) get(offset int64) (Attempts, bool) {
	if i, found := l.find(offset); found {
		return l[i].Attempts, true
	}
	return Attempts{}, false
}

// set sets the attempts of the job at an offset. It returns whether the failures changed:
// a changed number of calls alone needs no commit.
func (l *AttemptList) set(offset int64, a Attempts) (changed bool) {
	i, found := l.find(offset)
	if !found {
		*l = slices.Insert(*l, i, attemptsAt{offset: offset, Attempts: a})
		return true
	}
	changed = (*l)[i].Failures != a.Failures
	(*l)[i].Attempts = a
	return changed
}

func (l *AttemptList) remove(offset int64) {
	if i, found := l.find(offset); found {
		*l = slices.Delete(*l, i, i+1)
	}
}

// dropBelow drops the jobs below an offset.
func (l *AttemptList) dropBelow(offset int64) {
	if i, _ := l.find(offset); i > 0 {
		*l = slices.Delete(*l, 0, i)
	}
}

// from returns the jobs from an offset on, with offsets counted from there.
func (l AttemptList) from(offset int64) AttemptList {
	i, _ := l.find(offset)
	if i == len(l) {
		return nil
	}
	later := slices.Clone(l[i:])
	for i := range later {
		later[i].offset -= offset
	}
	return later
}

// span is the offset behind the last job.
func (l AttemptList) span() int64 {
	if len(l) == 0 {
		return 0
	}
	return l[len(l)-1].offset + 1
}

// append appends the list as runs to buf, lowest offsets first. It stops before buf exceeds
// maxBytes.
func (l AttemptList) append(buf []byte, maxBytes int) []byte {
	end := int64(0) // of the previous run
	for len(l) > 0 {
		run := 1
		for run < len(l) && l[run].offset == l[0].offset+int64(run) && l[run].Attempts == l[0].Attempts {
			run++
		}
		longer := binary.AppendUvarint(buf, uint64(l[0].offset-end))
		longer = binary.AppendUvarint(longer, uint64(run))
		longer = binary.AppendUvarint(longer, uint64(min(l[0].Failures, maxCount)))
		longer = binary.AppendUvarint(longer, uint64(min(l[0].Calls, maxCount)))
		if len(longer) > maxBytes {
			break
		}
		buf, end, l = longer, l[0].offset+int64(run), l[run:]
	}
	return buf
}

// maxCount bounds the calls and failures that are written, and those that are read.
const maxCount = 1 << 30

// decodeAttempts reads the runs. It returns false if they are in another format.
func decodeAttempts(raw []byte) (l AttemptList, ok bool) {
	end := uint64(0)
	for len(raw) > 0 {
		var v [4]uint64
		for i := range v {
			one, n := binary.Uvarint(raw)
			if n <= 0 || one > maxCount {
				return nil, false
			}
			v[i], raw = one, raw[n:]
		}
		at, run, failures, calls := end+v[0], v[1], v[2], v[3]
		if end = at + run; run == 0 || failures == 0 || end > Window {
			return nil, false
		}
		for ; at < end; at++ {
			l = append(l, attemptsAt{offset: int64(at), Attempts: Attempts{Calls: int(calls), Failures: int(failures)}})
		}
	}
	return l, true
}
