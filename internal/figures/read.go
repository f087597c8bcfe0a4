package figures

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Read returns what the nodes said within the last minute before now, Redis's time, by name, and of one name the newest first.
func Read(ctx context.Context, rdb redis.UniversalClient, namespace string, now time.Time) ([]Node, error) {
	fields, err := rdb.HGetAll(ctx, figuresKey(namespace)).Result()
	if err != nil {
		return nil, fmt.Errorf("read the nodes' figures: %w", err)
	}
	var nodes []Node
	for id, value := range fields {
		if n, ok := decode(id, value, now); ok && n.Age <= goneAfter {
			nodes = append(nodes, n)
		}
	}
	slices.SortFunc(nodes, func(a, b Node) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Age, b.Age), cmp.Compare(a.ID, b.ID))
	})
	return nodes, nil
}

// Calls are what the fleet did in each second, the oldest first. The lists are equally long. nil: no node said anything of
// that second.
type Calls struct {
	From      int64      `json:"from"`      // the first second, of the Unix time by Redis's clock
	Calls     []*float64 `json:"calls"`     // that reached the provider
	Refused   []*float64 `json:"refused"`   // of them, for their rate
	Units     []*float64 `json:"units"`     // that the calls counted on the first limit
	Cap       []*float64 `json:"cap"`       // of the first limit, in units a second
	Effective []*float64 `json:"effective"` // what the provider's answers left of it
}

// MostSeconds is how far back [ReadCalls] can look.
const MostSeconds = 3600

// settledAfter is how long after its end all nodes have said what they did in a second.
const settledAfter = 2 * time.Second

// ReadCalls returns the last seconds before now, Redis's time, that are over on all nodes.
func ReadCalls(ctx context.Context, rdb redis.UniversalClient, namespace string, now time.Time, seconds int) (Calls, error) {
	end := now.Add(-settledAfter).Unix() + 1
	c := Calls{From: end - int64(min(max(seconds, 1), MostSeconds))}
	var keys []*redis.MapStringStringCmd
	size := int64(bucket.Seconds())
	first := c.From / size
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for half := first; half <= (end-1)/size; half++ {
			keys = append(keys, p.HGetAll(ctx, secondsKey(namespace, half*size)))
		}
		return nil
	})
	if err != nil {
		return Calls{}, fmt.Errorf("read the fleet's calls: %w", err)
	}
	for second := c.From; second < end; second++ {
		fields, place := keys[second/size-first].Val(), placeOf(second)
		limit := number(fields, place+capField)
		c.Cap, c.Effective = append(c.Cap, limit), append(c.Effective, number(fields, place+effectiveField))
		c.Calls, c.Refused = append(c.Calls, counted(fields, place+callsField, limit)), append(c.Refused, counted(fields, place+refusedField, limit))
		c.Units = append(c.Units, counted(fields, place+unitsField, limit))
	}
	return c, nil
}

// number is nil where a second has no such field.
func number(fields map[string]string, field string) *float64 {
	n, err := strconv.ParseFloat(fields[field], 64)
	if err != nil {
		return nil
	}
	return &n
}

// counted is 0 where a second has no such field and some node said its cap.
func counted(fields map[string]string, field string, said *float64) *float64 {
	if n := number(fields, field); n != nil || said == nil {
		return n
	}
	return new(float64)
}
