package order

import "hash/maphash"

// Order is which jobs are handed out one at a time, in the order of their offsets. A job
// that is tried again in place holds those behind it.
type Order string

// The orders.
const (
	Key       Order = "key"       // those of one key
	Partition Order = "partition" // those of one partition
	None      Order = "none"      // none
)

// Keys names key queues. Two keys of which the hashes are the same share a queue.
type Keys struct {
	order Order
	seed  maphash.Seed
}

// NewKeys returns the Keys of an order, with a seed of their own.
func NewKeys(o Order) Keys { return Keys{o, maphash.MakeSeed()} }

// Order is the order that the queues keep.
func (k Keys) Order() Order { return k.order }

// Of names the key queue of a record; 0: it has none, and no order. fromRetry: it is the record of a retry
// topic, which has left the order of its partition; with order [Key], such records keep that of a key.
func (k Keys) Of(key []byte, fromRetry bool) uint64 {
	switch {
	case k.order == Partition && !fromRetry:
		return 1
	case k.order != Key || len(key) == 0:
		return 0
	}
	return max(maphash.Bytes(k.seed, key), 1)
}
