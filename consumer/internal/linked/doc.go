// Package linked has lists of items that hold their own links. So an item is put into a list, and taken out of it, without an
// allocation and, in a [Chain], without a search.
//
// A type without fields says where an item of another type keeps its links: [Links] for a [List], [Neighbours] for a [Chain]. So an
// item can be in a list and in a chain at the same time, and has no method for either. An item is in one list at most.
//
// # What it does not do
//
// It has no lock, starts no goroutine, and nothing in it fails. The zero values are empty.
package linked
