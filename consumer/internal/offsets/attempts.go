package offsets

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// Attempts is what a job has been through.
type Attempts struct {
	Calls    int // that left the process
	Failures int // of them, those that count against the attempts allowed
}

// AttemptList are what the open jobs of a partition have been through that failed in
// place, rising by offset. They travel in the metadata of the offset commit, so
// that a job that changes hands is not called more often than it may be. See
// [Metadata] for the format.
type AttemptList []attemptsAt

// attemptsAt is what one job has been through.
type attemptsAt struct {
	offset int64 // its offset; in a commit, counted from the committed one
	Attempts
}

func (p AttemptList) find(at int64) (int, bool) {
	return slices.BinarySearchFunc(p, at, func(one attemptsAt, at int64) int { return cmp.Compare(one.offset, at) })
}

// get returns what the job at an offset has been through.
func (p AttemptList) get(at int64) (Attempts, bool) {
	if i, found := p.find(at); found {
		return p[i].Attempts, true
	}
	return Attempts{}, false
}

// set notes what the job at an offset has been through. It returns whether the
// failures are others than before: calls alone are not worth a commit.
func (p *AttemptList) set(at int64, past Attempts) (news bool) {
	i, found := p.find(at)
	if !found {
		*p = slices.Insert(*p, i, attemptsAt{offset: at, Attempts: past})
		return true
	}
	news = (*p)[i].Failures != past.Failures
	(*p)[i].Attempts = past
	return news
}

func (p *AttemptList) remove(at int64) {
	if i, found := p.find(at); found {
		*p = slices.Delete(*p, i, i+1)
	}
}

// dropBelow drops those below an offset.
func (p *AttemptList) dropBelow(below int64) {
	if i, _ := p.find(below); i > 0 {
		*p = slices.Delete(*p, 0, i)
	}
}

// from are those from an offset on, counted from there.
func (p AttemptList) from(by int64) AttemptList {
	i, _ := p.find(by)
	if i == len(p) {
		return nil
	}
	later := slices.Clone(p[i:])
	for i := range later {
		later[i].offset -= by
	}
	return later
}

// span is how far they reach, in offsets.
func (p AttemptList) span() int64 {
	if len(p) == 0 {
		return 0
	}
	return p[len(p)-1].offset + 1
}

// append adds the pasts as runs, those of the lowest offsets first, as long as they
// fit into so many bytes in all.
func (p AttemptList) append(to []byte, most int) []byte {
	end := int64(0) // of the run before
	for len(p) > 0 {
		run := 1
		for run < len(p) && p[run].offset == p[0].offset+int64(run) && p[run].Attempts == p[0].Attempts {
			run++
		}
		longer := binary.AppendUvarint(to, uint64(p[0].offset-end))
		longer = binary.AppendUvarint(longer, uint64(run))
		longer = binary.AppendUvarint(longer, uint64(min(p[0].Failures, maxCount)))
		longer = binary.AppendUvarint(longer, uint64(min(p[0].Calls, maxCount)))
		if len(longer) > most {
			break
		}
		to, end, p = longer, p[0].offset+int64(run), p[run:]
	}
	return to
}

// maxCount is the most calls and the most failures that are written, and believed.
const maxCount = 1 << 30

// decodeAttempts reads the runs; not ok: they are someone else's.
func decodeAttempts(raw []byte) (p AttemptList, ok bool) {
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
			p = append(p, attemptsAt{offset: int64(at), Attempts: Attempts{Calls: int(calls), Failures: int(failures)}})
		}
	}
	return p, true
}
