package turns

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// numbered is an item, and what it costs its tenant.
type numbered struct {
	tenant string
	number int
	cost   int
}

// While tenants have items, what each gets follows its weight: by no more than one job of each does one fall behind
// another, whatever comes, goes and changes meanwhile. No item is lost, and those of a tenant keep their order.
func TestTenantsGetTheirShares(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const mostCost = 3
		var q Queue[numbered]
		weights := map[string]float64{}
		var taken []numbered
		since := map[string]int{} // of taken: since then the tenant has jobs, with its weight
		waiting, next, last := map[string]int{}, 0, map[string]int{}
		names := []string{"a", "b", "c"}
		t.Repeat(map[string]func(*rapid.T){
			"come": func(t *rapid.T) {
				name := rapid.SampledFrom(names).Draw(t, "tenant")
				for range rapid.IntRange(1, 5).Draw(t, "jobs") {
					one := numbered{name, next, rapid.IntRange(1, mostCost).Draw(t, "cost")}
					next++
					if waiting[name] == 0 {
						since[name] = len(taken)
					}
					waiting[name]++
					q.Push(name, one, one.cost, true)
				}
			},
			"go": func(t *rapid.T) {
				if q.Len() == 0 {
					return
				}
				one := q.Pop()
				if before, ok := last[one.tenant]; ok && before >= one.number {
					t.Fatalf("got item %d of %s behind item %d, want them in their order", one.number, one.tenant, before)
				}
				last[one.tenant] = one.number
				waiting[one.tenant]--
				taken = append(taken, one)
			},
			"weigh": func(t *rapid.T) {
				weights = map[string]float64{rapid.SampledFrom(names).Draw(t, "whose"): rapid.SampledFrom([]float64{0.5, 1, 2, 4}).Draw(t, "weight")}
				q.SetWeights(weights)
				for name := range since {
					since[name] = len(taken)
				}
			},
			"": func(t *rapid.T) {
				all := 0
				for _, n := range waiting {
					all += n
				}
				if q.Len() != all || len(q.named) != len(q.order) {
					t.Fatalf("got %d items and %d tenants of %d, want %d items", q.Len(), len(q.named), len(q.order), all)
				}
				for _, a := range names {
					for _, b := range names {
						if waiting[a] == 0 || waiting[b] == 0 {
							continue
						}
						got := map[string]float64{}
						for _, one := range taken[max(since[a], since[b]):] {
							got[one.tenant] += float64(one.cost) / q.weightOf(one.tenant)
						}
						if most := mostCost/q.weightOf(a) + mostCost/q.weightOf(b); got[a] > got[b]+most {
							t.Fatalf("got %v for %s and %v for %s by their weights, want a difference of at most %v", got[a], a, got[b], b, most)
						}
					}
				}
			},
		})
		for q.Len() > 0 {
			waiting[q.Pop().tenant]--
		}
		for name, n := range waiting {
			if n != 0 {
				t.Fatalf("got %d items of %s more than came", -n, name)
			}
		}
	})
}

// Items that come again do not wait behind all fresh ones of their tenant, nor the other way round.
func TestItemsThatComeAgainTakeTurnsWithFreshOnes(t *testing.T) {
	t.Parallel()
	var q Queue[int]
	for i := range 3 {
		q.Push("a", 10+i, 1, true)
		q.Push("a", i, 1, false)
	}
	var order []int
	for q.Len() > 0 {
		order = append(order, q.Pop())
	}
	if got := fmt.Sprint(order); got != "[0 10 1 11 2 12]" {
		t.Errorf("got %s, want those that come again and fresh ones in turn", got)
	}
}

// A tenant whose items cost three turns gets a third as many.
func TestItemsThatCostMoreTakeMoreTurns(t *testing.T) {
	t.Parallel()
	var q Queue[string]
	for range 40 {
		q.Push("a", "a", 3, true)
		q.Push("b", "b", 1, true)
	}
	got := map[string]int{}
	for range 40 {
		got[q.Pop()]++
	}
	if got["a"] != 10 || got["b"] != 30 {
		t.Errorf("got %v, want 10 and 30", got)
	}
}

// A tenant that gets its turn back goes before those that had theirs, and before those that came later.
func TestATenantThatGetsItsTurnBackGoesNext(t *testing.T) {
	t.Parallel()
	var q Queue[string]
	for _, tenant := range []string{"a", "b", "c", "d"} {
		q.Push(tenant, tenant, 1, true)
		q.Push(tenant, tenant, 1, true)
	}
	first, second := q.Pop(), q.Pop()
	q.Refund(first, 1)
	if next := q.Pop(); first != "a" || second != "b" || next != "a" {
		t.Errorf("got %s, %s and %s, want a, b and a again", first, second, next)
	}
}

// A tenant that has one item at a time takes turns with one that has many, by their weights.
func TestATenantWithOneItemAtATimeStarvesNobody(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		weights map[string]float64
		want    int // of 40
	}{{nil, 20}, {map[string]float64{"single": 0.1}, 4}, {map[string]float64{"single": 3}, 30}} {
		var q Queue[string]
		q.SetWeights(row.weights)
		for range 100 {
			q.Push("many", "many", 1, true)
		}
		q.Push("single", "single", 1, true)
		got := map[string]int{}
		for range 40 {
			one := q.Pop()
			if got[one]++; one == "single" {
				q.Push("single", "single", 1, true)
			}
		}
		if n := got["single"]; n < row.want-1 || n > row.want+1 {
			t.Errorf("weights %v: got %v of 40, want about %d", row.weights, got, row.want)
		}
	}
}

// What a tenant got under a small weight counts by its new one, also where it had no items when the weights changed.
func TestATenantWithoutItemsHasItsNewWeight(t *testing.T) {
	t.Parallel()
	var q Queue[string]
	q.SetWeights(map[string]float64{"first": 0.5})
	q.Push("first", "first", 3, true)
	for range 9 {
		q.Push("other", "other", 1, true)
	}
	if got := q.Pop(); got != "first" {
		t.Fatalf("got an item of %s, want one of the tenant that came first", got)
	}
	q.SetWeights(nil)
	q.Push("first", "first", 3, true)
	others := 0
	for ; q.Pop() != "first"; others++ {
	}
	if others > 4 {
		t.Errorf("got %d items of the other tenant before the next, want the 3 that the first one had, and one", others)
	}
}

// A tenant whose turns are given back again and again is not put before one that waits.
func TestTurnsThatAreGivenBackAreBounded(t *testing.T) {
	t.Parallel()
	var q Queue[string]
	for range 50 {
		q.Push("a", "a", 1, true)
		q.Push("b", "b", 1, true)
	}
	for range 100 {
		q.Refund("a", 1)
	}
	got := map[string]int{}
	for range 20 {
		got[q.Pop()]++
	}
	if got["b"] != 10 {
		t.Errorf("got %v of 20, want half of each", got)
	}
}

// An item that was taken and comes again takes one turn, and no more.
func TestAnItemThatComesAgainTakesOneTurn(t *testing.T) {
	t.Parallel()
	var q Queue[string]
	for range 40 {
		q.Push("a", "a", 1, true)
		q.Push("b", "b", 1, true)
	}
	used := map[string]int{}
	for seen := 0; used["a"]+used["b"] < 40; seen++ {
		it := q.Pop()
		if it == "b" && seen%3 > 0 { // two of three can't be used now
			q.Refund("b", 1)
			q.Push("b", "b", 1, false)
			continue
		}
		used[it]++
	}
	if used["b"] < 18 || used["b"] > 22 {
		t.Errorf("got %v used, want half of each tenant", used)
	}
	q.Refund("nobody", 1) // has no effect
}

// What an item costs in a queue of two tenants.
func BenchmarkTurns(b *testing.B) {
	var q Queue[int]
	for i := range 64 {
		q.Push([]string{"a", "b"}[i%2], i, 1, true)
	}
	b.ReportAllocs()
	for b.Loop() {
		i := q.Pop()
		q.Push([]string{"a", "b"}[i%2], i, 1, true)
	}
}

// Items that were put back go first, in their order, and others can be taken out wherever they are.
func TestItemsThatArePutBackGoFirst(t *testing.T) {
	t.Parallel()
	var q Queue[int]
	for i := range 6 {
		q.Push([]string{"a", "b"}[i%2], i, 1, true)
	}
	first, second := q.Pop(), q.Pop()
	q.PutBack(second)
	q.PutBack(first)
	if n := q.Before(func(i int) bool { return i == 1 }); n != 1 {
		t.Errorf("got %d items before the second one that was put back, want 1", n)
	}
	if n := q.Before(func(i int) bool { return i == 4 }); n != 3 {
		t.Errorf("got %d items before the last one of its tenant, want 3: two were put back, and one is of its tenant", n)
	}
	if got, ok := q.Take(func(i int) bool { return i%2 == 1 }); !ok || got != 1 {
		t.Errorf("got %d, want the first odd one: it was put back", got)
	}
	if got, ok := q.Take(func(i int) bool { return i > 9 }); ok {
		t.Errorf("got %d, want none", got)
	}
	q.DeleteFunc(func(i int) bool { return i == 3 || i == 5 })
	var order []int
	for q.Len() > 0 {
		order = append(order, q.Pop())
	}
	if !slices.Equal(order, []int{0, 2, 4}) || len(q.named) != 0 {
		t.Errorf("got %v and %d tenants, want 0, 2 and 4, and none", order, len(q.named))
	}
}
