package consumer

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// pasts are what the open jobs of a partition have been through that failed in
// place, rising by offset. They travel in the metadata of the offset commit, so
// that a job that changes hands is not called more often than it may be. See
// [metadata] for the format.
type pasts []pastAt

// pastAt is what one job has been through.
type pastAt struct {
	at int64 // its offset; in a commit, counted from the committed one
	Attempts
}

func (p pasts) find(at int64) (int, bool) {
	return slices.BinarySearchFunc(p, at, func(one pastAt, at int64) int { return cmp.Compare(one.at, at) })
}

// get returns what the job at an offset has been through.
func (p pasts) get(at int64) (Attempts, bool) {
	if i, found := p.find(at); found {
		return p[i].Attempts, true
	}
	return Attempts{}, false
}

// set notes what the job at an offset has been through. It returns whether the
// failures are others than before: calls alone are not worth a commit.
func (p *pasts) set(at int64, past Attempts) (news bool) {
	i, found := p.find(at)
	if !found {
		*p = slices.Insert(*p, i, pastAt{at: at, Attempts: past})
		return true
	}
	news = (*p)[i].Failures != past.Failures
	(*p)[i].Attempts = past
	return news
}

func (p *pasts) remove(at int64) {
	if i, found := p.find(at); found {
		*p = slices.Delete(*p, i, i+1)
	}
}

// cut drops those below an offset.
func (p *pasts) cut(below int64) {
	if i, _ := p.find(below); i > 0 {
		*p = slices.Delete(*p, 0, i)
	}
}

// shifted are those from an offset on, counted from there.
func (p pasts) shifted(by int64) pasts {
	i, _ := p.find(by)
	if i == len(p) {
		return nil
	}
	later := slices.Clone(p[i:])
	for i := range later {
		later[i].at -= by
	}
	return later
}

// span is how far they reach, in offsets.
func (p pasts) span() int64 {
	if len(p) == 0 {
		return 0
	}
	return p[len(p)-1].at + 1
}

// append adds the pasts as runs, those of the lowest offsets first, as long as they
// fit into so many bytes in all.
func (p pasts) append(to []byte, most int) []byte {
	end := int64(0) // of the run before
	for len(p) > 0 {
		run := 1
		for run < len(p) && p[run].at == p[0].at+int64(run) && p[run].Attempts == p[0].Attempts {
			run++
		}
		longer := binary.AppendUvarint(to, uint64(p[0].at-end))
		longer = binary.AppendUvarint(longer, uint64(run))
		longer = binary.AppendUvarint(longer, uint64(min(p[0].Failures, maxCount)))
		longer = binary.AppendUvarint(longer, uint64(min(p[0].Calls, maxCount)))
		if len(longer) > most {
			break
		}
		to, end, p = longer, p[0].at+int64(run), p[run:]
	}
	return to
}

// maxCount is the most calls and the most failures that are written, and believed.
const maxCount = 1 << 30

// decodePasts reads the runs; not ok: they are someone else's.
func decodePasts(raw []byte) (p pasts, ok bool) {
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
		if end = at + run; run == 0 || failures == 0 || end > spanCap {
			return nil, false
		}
		for ; at < end; at++ {
			p = append(p, pastAt{at: int64(at), Attempts: Attempts{Calls: int(calls), Failures: int(failures)}})
		}
	}
	return p, true
}
