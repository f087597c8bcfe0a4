package integration

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// remembered reads the dedup store in Redis itself, as lua/dedup.lua writes it:
// which jobs are done, and how many are claimed.
func (k *killing) remembered(t *testing.T) (done []string, claimed int) {
	t.Helper()
	jobs := digests(k.topic, k.size.jobs)
	for field, value := range k.entries(t) {
		id, ok := jobs[field]
		if !ok {
			t.Errorf("the dedup store holds %x = %q, which is no job of ours", field, value)
		}
		if strings.Contains(value, " ") { // who, number, until
			claimed++
			continue
		}
		if _, err := strconv.Atoi(value); err != nil {
			t.Errorf("job %s: %q is no outcome", id, value)
		}
		done = append(done, id)
	}
	return done, claimed
}

// entries are all there are, bucket by bucket, so that Redis is never held up.
func (k *killing) entries(t *testing.T) map[string]string {
	t.Helper()
	prefix := "dispatcher:{" + k.namespace + "}:sent"
	list, err := k.rdb.HGet(t.Context(), prefix, "list").Result()
	if err != nil {
		t.Fatalf("the dedup store's list: %v", err)
	}
	all := map[string]string{}
	for word := range strings.FieldsSeq(list) {
		name, rest, _ := strings.Cut(word, ":")
		count, _, _ := strings.Cut(rest, ":")
		buckets, err := strconv.Atoi(count)
		if err != nil {
			t.Fatalf("the dedup store's list %q: %v", list, err)
		}
		for at := 0; at < buckets; at += 64 {
			k.buckets(t, all, prefix+":"+name+":", at, min(at+64, buckets))
		}
	}
	return all
}

func (k *killing) buckets(t *testing.T, into map[string]string, prefix string, from, to int) {
	t.Helper()
	got, err := k.rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for b := from; b < to; b++ {
			p.HGetAll(t.Context(), prefix+strconv.Itoa(b))
		}
		return nil
	})
	if err != nil {
		t.Fatalf("the dedup store's buckets: %v", err)
	}
	for _, cmd := range got {
		maps.Copy(into, cmd.(*redis.MapStringStringCmd).Val())
	}
}

// digests are the fields under which the dedup store keeps these jobs.
// The jobs' ids stand in their values, so they count within the topic.
func digests(topic string, jobs int) map[string]string {
	ids := make(map[string]string, jobs)
	for i := range jobs {
		id := fmt.Sprint("job-", i)
		sum := sha256.Sum256([]byte(id + "\x00in " + topic))
		ids[string(sum[4:14])] = id
	}
	return ids
}

// doneIsDone: what Redis knew to be done when a node was killed was not called
// from then on. A done comes a whole latency after its call, so that a call later
// than that is another one, however long the reading took.
//
// Together with wasOnTheWire that is each job whose done Redis had acknowledged:
// only kills cause repeats, and what a dead node knew, Redis knows then.
func (k *killing) doneIsDone(t *testing.T) {
	t.Helper()
	last := map[string]time.Duration{}
	for _, a := range k.arrivals {
		last[a.Key] = max(last[a.Key], a.At)
	}
	for i, one := range k.kills {
		till := k.stamp(one.read) - killLatency/2
		for _, id := range one.done {
			if last[id] > till {
				t.Errorf("job %s was called %v after Redis knew it to be done, at kill %d", id, last[id]-k.stamp(one.read), i+1)
			}
		}
		// All that was answered a second before must be there, or this shows nothing.
		answered := map[string]bool{}
		for _, a := range k.arrivals {
			if a.At < k.stamp(one.at)-killLatency-time.Second {
				answered[a.Key] = true
			}
		}
		if known := len(one.done) + one.claimed; known < len(answered) {
			t.Errorf("Redis knew %d jobs at kill %d, want the %d at least that had been answered", known, i+1, len(answered))
		}
	}
}

// wasOnTheWire: each job that was called again was called before by a node that
// was killed between the two, and no longer before the kill than within.
func (k *killing) wasOnTheWire(t *testing.T, within time.Duration) {
	t.Helper()
	for _, r := range k.repeats() {
		i, at, killed := k.killOf(r.before.Node)
		switch {
		case !killed || r.call.At < at:
			t.Errorf("job %s was called by node %d at %v and again by node %d at %v, and no kill was in between",
				r.call.Key, r.before.Node, r.before.At, r.call.Node, r.call.At)
		case r.before.At < at-within:
			tooOld(t, k.report, "job %s was called again, though its call came %v before kill %d: more than %v", r.call.Key, at-r.before.At, i+1, within)
		}
	}
}
