package linked_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"dispatcher/consumer/internal/linked"
)

type item struct {
	bytes              int
	next, older, newer *item
}

type links struct{}

func (links) Next(one *item) **item  { return &one.next }
func (links) Bytes(one *item) int    { return one.bytes }
func (links) Older(one *item) **item { return &one.older }
func (links) Newer(one *item) **item { return &one.newer }

// Whatever is put in and taken out: a list holds what a slice would hold, and knows its volume.
func TestAListIsAQueue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var l linked.List[item, links]
		var want []*item
		draw := func(t *rapid.T) *item { return &item{bytes: rapid.IntRange(0, 9).Draw(t, "bytes")} }
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				one := draw(t)
				l.Push(one)
				want = append(want, one)
			},
			"push in front": func(t *rapid.T) {
				one := draw(t)
				l.PushFront(one)
				want = slices.Insert(want, 0, one)
			},
			"pop": func(t *rapid.T) {
				if len(want) == 0 {
					t.Skip()
				}
				if got := l.Pop(); got != want[0] {
					t.Fatalf("got %p, want the first one, %p", got, want[0])
				}
				want = want[1:]
			},
			"remove": func(t *rapid.T) {
				at := rapid.IntRange(-1, len(want)).Draw(t, "at")
				got := l.Remove(at)
				if at < 0 || at == len(want) {
					if got != nil {
						t.Fatalf("got %p at %d of %d, want none", got, at, len(want))
					}
					return
				}
				if got != want[at] || got.next != nil {
					t.Fatalf("got %p with %p behind it at %d, want %p alone", got, got.next, at, want[at])
				}
				want = slices.Delete(want, at, at+1)
			},
			"": func(t *rapid.T) {
				var volume linked.Volume
				var got []*item
				for one := l.Head(); one != nil; one = one.next {
					volume.Plus(one.bytes)
					got = append(got, one)
				}
				if !slices.Equal(got, want) || l.Volume() != volume {
					t.Fatalf("got %v of %+v, want %v of %+v", got, l.Volume(), want, volume)
				}
			},
		})
	})
}

// Whatever is taken out in between: a chain holds the others in the order in which they came, from both ends.
func TestAChainKeepsTheOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var c linked.Chain[item, links]
		var want []*item
		t.Repeat(map[string]func(*rapid.T){
			"add": func(*rapid.T) {
				one := new(item)
				c.Add(one)
				want = append(want, one)
			},
			"remove": func(t *rapid.T) {
				if len(want) == 0 {
					t.Skip()
				}
				at := rapid.IntRange(0, len(want)-1).Draw(t, "at")
				c.Remove(want[at])
				c.Remove(want[at])
				want = slices.Delete(want, at, at+1)
			},
			"": func(t *rapid.T) {
				var got, back []*item
				for one := c.Oldest(); one != nil; one = one.newer {
					got = append(got, one)
				}
				for one := c.Newest(); one != nil; one = one.older {
					back = append(back, one)
				}
				slices.Reverse(back)
				if !slices.Equal(got, want) || !slices.Equal(back, want) {
					t.Fatalf("got %v, and from the newest on %v, want %v", got, back, want)
				}
			},
		})
	})
}
