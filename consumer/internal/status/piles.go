package status

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// Pile is jobs of this node that wait for the same: for a job of their ordering key that goes first, or for the same value of a limit.
type Pile struct {
	Limit   string   // empty: they have one ordering key
	Value   [16]byte // of the limit, by which it tells them apart
	Key     []byte   // the ordering key
	Jobs    int
	AtLeast bool // only the oldest jobs of a partition were looked at, so there may be more
}

// Piles counts jobs by what they wait for. The zero value has counted none.
type Piles struct{ counts map[pile]count }

// pile names one.
type pile struct {
	limit string
	value [16]byte
}

// count is how many jobs a pile has, and the key of one of them.
type count struct {
	jobs int
	key  []byte
}

// AddToValue counts a job that waits for a value of a limit.
func (p *Piles) AddToValue(limit string, value [16]byte) { p.add(pile{limit, value}, nil) }

// AddToKey counts a job that waits for its ordering key, or that others of its key wait for. The hash tells keys apart.
func (p *Piles) AddToKey(hash uint64, key []byte) {
	var of pile
	binary.LittleEndian.PutUint64(of.value[:], hash)
	p.add(of, key)
}

func (p *Piles) add(of pile, key []byte) {
	if p.counts == nil {
		p.counts = make(map[pile]count)
	}
	p.counts[of] = count{p.counts[of].jobs + 1, key}
}

// Largest are the largest piles of two jobs and more, so many at most. cut: there may be more jobs than were counted.
func (p *Piles) Largest(most int, cut bool) []Pile {
	var all []Pile
	for of, n := range p.counts {
		switch {
		case n.jobs < 2:
		case of.limit == "":
			all = append(all, Pile{Key: n.key, Jobs: n.jobs, AtLeast: cut})
		default:
			all = append(all, Pile{Limit: of.limit, Value: of.value, Jobs: n.jobs, AtLeast: cut})
		}
	}
	slices.SortFunc(all, func(x, y Pile) int {
		return cmp.Or(cmp.Compare(y.Jobs, x.Jobs), cmp.Compare(x.Limit, y.Limit), slices.Compare(x.Value[:], y.Value[:]), slices.Compare(x.Key, y.Key))
	})
	return all[:min(len(all), most)]
}
