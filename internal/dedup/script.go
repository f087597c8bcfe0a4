package dedup

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// This file and the script's header are the only places that know the order of
// its arguments and replies, and how keys are named.

// verb is the command for an entry.
type verb string

const (
	verbClaim   verb = "claim"
	verbDone    verb = "done"
	verbRelease verb = "release"
	verbPeek    verb = "peek"
)

// digest is the hash of a job's id: four bytes choose its bucket, ten are kept. With 50
// million jobs remembered, fewer than one new job in 10¹⁶ is mistaken for one of them,
// even with only a thousand buckets.
type digest struct {
	bucket uint32
	field  string
}

func digestOf(id string) digest {
	sum := sha256.Sum256([]byte(id))
	return digest{bucket: binary.BigEndian.Uint32(sum[:4]), field: string(sum[4:14])}
}

// request is one entry in a call of the script.
type request struct {
	verb   verb
	job    digest
	owner  string
	number int64 // of a claim; the outcome of a done
}

// result is the script's reply to one entry.
type result struct {
	code  int64
	value int64
}

// The script's reply codes.
const (
	codeFree = iota
	codeGranted
	codeSent
	codeBusy
	codeUnknown
	codeTaken
	codeEnd
)

// terms are the settings that go with each call.
type terms struct {
	period, window, hold time.Duration
	takeOver             bool
}

// generation is the set of buckets that took new entries for one period.
type generation struct {
	name    string
	buckets uint32
	expires int64 // µs, by Redis's clock
}

// runFunc sends a batch to Redis once.
type runFunc func(context.Context, []request) (results []result, lost bool, err error)

// script runs dedup.lua. It belongs to one goroutine.
type script struct {
	rdb         redis.Scripter
	text        *redis.Script
	prefix      string
	terms       terms
	list        string
	generations []generation // of the list
}

func prefix(namespace string) string { return "dispatcher:{" + namespace + "}:sent" }

var errReply = errors.New("unexpected reply of the script")

// mostLists is how many new lists in a row may answer one call.
const mostLists = 3

// run sends a batch to Redis, and returns the result of each entry. It reports
// whether Redis has lost generations that had not expired.
func (s *script) run(ctx context.Context, batch []request) (results []result, lost bool, err error) {
	for range mostLists {
		reply, err := s.text.Run(ctx, s.rdb, s.keys(batch), s.args(batch)...).Slice()
		if err != nil {
			return nil, lost, fmt.Errorf("dedup store: %w", err)
		}
		list, now, err := listOf(reply)
		if err != nil {
			return nil, lost, err
		}
		if list == "" {
			results, err = resultsOf(reply, len(batch))
			return results, lost, err
		}
		gone, err := s.learn(list, now)
		if err != nil {
			return nil, lost, err
		}
		lost = lost || gone
	}
	return nil, lost, fmt.Errorf("dedup store: %w: %d lists in a row", errReply, mostLists)
}

func (s *script) keys(batch []request) []string {
	keys := make([]string, 0, 1+len(batch)*len(s.generations))
	keys = append(keys, s.prefix)
	for _, a := range batch {
		for _, g := range s.generations {
			keys = append(keys, s.prefix+":"+g.name+":"+strconv.FormatUint(uint64(a.job.bucket%g.buckets), 10))
		}
	}
	return keys
}

func (s *script) args(batch []request) []any {
	args := make([]any, 0, 5+4*len(batch))
	args = append(args, s.list, s.terms.period.Microseconds(), s.terms.window.Microseconds(), s.terms.hold.Microseconds(), s.terms.takeOver)
	for _, a := range batch {
		args = append(args, string(a.verb), a.job.field, a.owner, a.number)
	}
	return args
}

// listOf is the current list of generations, or nothing if the caller's list was
// current.
func listOf(reply []any) (list string, now int64, err error) {
	if len(reply) < 2 {
		return "", 0, fmt.Errorf("dedup store: %w: %d values", errReply, len(reply))
	}
	now, ok1 := reply[0].(int64)
	known, ok2 := reply[1].(int64)
	if !ok1 || !ok2 || known < 0 || known > 1 {
		return "", 0, fmt.Errorf("dedup store: %w: %T, %T", errReply, reply[0], reply[1])
	}
	if known == 1 {
		return "", now, nil
	}
	if len(reply) == 3 {
		list, _ = reply[2].(string)
	}
	if list == "" {
		return "", 0, fmt.Errorf("dedup store: %w: no list", errReply)
	}
	return list, now, nil
}

func resultsOf(reply []any, entries int) ([]result, error) {
	if len(reply) != 2+2*entries {
		return nil, fmt.Errorf("dedup store: %w: %d values for %d entries", errReply, len(reply), entries)
	}
	results := make([]result, entries)
	for i := range results {
		code, ok1 := reply[2+2*i].(int64)
		value, ok2 := reply[3+2*i].(int64)
		if !ok1 || !ok2 || code < 0 || code >= codeEnd || value < 0 {
			return nil, fmt.Errorf("dedup store: %w: of entry %d %v, %v", errReply, i, reply[2+2*i], reply[3+2*i])
		}
		results[i] = result{code: code, value: value}
	}
	return results, nil
}

// learn takes a new list. It reports whether the newest known generation is missing
// though it has not expired: then Redis has lost the dedup store.
func (s *script) learn(list string, now int64) (lost bool, err error) {
	generations, err := parseList(list)
	if err != nil {
		return false, err
	}
	if len(s.generations) > 0 {
		before := s.generations[0]
		lost = before.expires > now
		for _, g := range generations {
			lost = lost && g.name != before.name
		}
	}
	s.list, s.generations = list, generations
	return lost, nil
}

// mostGenerations bounds a list that the script did not write.
const mostGenerations = 64

func parseList(list string) ([]generation, error) {
	words := strings.Fields(list)
	if len(words) == 0 || len(words) > mostGenerations {
		return nil, fmt.Errorf("dedup store: %w: a list of %d generations", errReply, len(words))
	}
	generations := make([]generation, len(words))
	for i, word := range words {
		name, rest, _ := strings.Cut(word, ":")
		count, till, _ := strings.Cut(rest, ":")
		_, err1 := strconv.ParseUint(name, 10, 63)
		buckets, err2 := strconv.ParseUint(count, 10, 31)
		expires, err3 := strconv.ParseInt(till, 10, 64)
		if err := errors.Join(err1, err2, err3); err != nil || buckets == 0 {
			return nil, fmt.Errorf("dedup store: %w: generation %q", errReply, word)
		}
		generations[i] = generation{name: name, buckets: uint32(buckets), expires: expires}
	}
	return generations, nil
}
