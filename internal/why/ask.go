package why

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
)

const idLength = 16 // of a question, in hexadecimal

// Ask asks all nodes of a namespace, and waits until the expected ones have answered or ctx ends. Others answer too, such as
// a node that has just started. An answer that comes later is lost. It returns an error where Redis does not take the question.
func Ask(ctx context.Context, rdb redis.UniversalClient, namespace string, q Question, expected []string) (got []Answer, err error) {
	if err := q.validate(); err != nil {
		return nil, err
	}
	var id [idLength / 2]byte
	_, _ = rand.Read(id[:]) // never fails, by its contract
	q.ID = hex.EncodeToString(id[:])
	text, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	sub := rdb.Subscribe(ctx, answers(namespace, q.ID))
	defer func() { _ = sub.Close() }() // nothing is under way that its error could concern
	if _, err := sub.Receive(ctx); err != nil {
		return nil, fmt.Errorf("subscribe to the nodes' answers: %w", err)
	}
	if err := rdb.Publish(ctx, questions(namespace), text).Err(); err != nil {
		return nil, fmt.Errorf("ask the nodes: %w", err)
	}
	awaited := slices.Clone(expected)
	for messages := sub.Channel(); len(awaited) > 0; {
		select {
		case <-ctx.Done():
			return got, nil
		case m := <-messages:
			if a, ok := decodeAnswer(m.Payload); ok {
				got = append(got, a)
				if i := slices.Index(awaited, a.Node); i >= 0 { // two nodes may have one name
					awaited = slices.Delete(awaited, i, i+1)
				}
			}
		}
	}
	return got, nil
}

// decodeAnswer reads an answer; false: it is none.
func decodeAnswer(text string) (a Answer, ok bool) {
	if len(text) > mostAnswer || json.Unmarshal([]byte(text), &a) != nil || a.Node == "" || len(a.Jobs) > MostJobs {
		return Answer{}, false
	}
	return a, true
}
