package limit

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"dispatcher/internal/fault"
)

// Hash stands for a value of a gate's key. Redis holds no values.
type Hash [16]byte

// HashOf hashes a value.
func HashOf(value string) (h Hash) {
	sum := sha256.Sum256([]byte(value))
	copy(h[:], sum[:])
	return h
}

// String is the hash as keys in Redis have it: 32 hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash reads what [Hash.String] wrote.
func ParseHash(text string) (h Hash, err error) {
	if n, err := hex.Decode(h[:], []byte(text[:min(len(text), 2*len(h))])); err != nil || n != len(h) || len(text) != 2*len(h) {
		return Hash{}, fault.New("hash", text, "must be 32 hexadecimal digits, as limit get shows them")
	}
	return h, nil
}

// Exception is the cap of one value of a gate's key, in place of the gate's own.
type Exception struct {
	Of    Hash
	Cap   int64
	Until time.Time // by Redis's clock; zero: for good
}

// MaxExceptions is how many exceptions a limit may have. They are part of its settings, which
// each call carries.
const MaxExceptions = 100

// Exceptions are those of one gate, in the order of their hashes: "hash=cap", or
// "hash=cap@until_us" with an end, and a space behind each but the last. Equal ones are equal
// texts. reserve/pick.lua reads them too.
type Exceptions string

// String is one exception as [Exceptions] have it.
func (e Exception) String() string {
	text := e.Of.String() + "=" + strconv.FormatInt(e.Cap, 10)
	if !e.Until.IsZero() {
		text += "@" + strconv.FormatInt(Micros(e.Until), 10)
	}
	return text
}

// ended reports whether the exception is over.
func (e Exception) ended(now time.Time) bool { return !e.Until.IsZero() && !now.Before(e.Until) }

// All are the exceptions one by one. Its error is a [fault.Error].
func (e Exceptions) All() ([]Exception, error) {
	var all []Exception
	for word := range strings.FieldsSeq(string(e)) {
		one, err := parseException(word)
		if err != nil || len(all) > 0 && all[len(all)-1].Of.String() >= one.Of.String() {
			return nil, fault.New("exceptions", word, "must be hash=cap or hash=cap@until_us, in the order of the hashes")
		}
		all = append(all, one)
	}
	return all, nil
}

func parseException(word string) (one Exception, err error) {
	hash, rest, _ := strings.Cut(word, "=")
	units, until, ends := strings.Cut(rest, "@")
	if one.Of, err = ParseHash(hash); err != nil {
		return one, err
	}
	if one.Cap, err = strconv.ParseInt(units, 10, 64); err != nil || !ends {
		return one, err
	}
	us, err := strconv.ParseInt(until, 10, 64)
	one.Until = FromMicros(us)
	return one, err
}

// Find is the exception of a value at a time.
func (e Exceptions) Find(of Hash, now time.Time) (Exception, bool) {
	if e == "" {
		return Exception{}, false
	}
	at := strings.Index(string(e), of.String()+"=")
	if at < 0 {
		return Exception{}, false
	}
	word, _, _ := strings.Cut(string(e[at:]), " ")
	one, err := parseException(word)
	return one, err == nil && !one.ended(now)
}

// With are the exceptions with one more, or with another cap of its value. Those that have
// ended are left out.
func (e Exceptions) With(one Exception, now time.Time) Exceptions {
	all, _ := e.Without(one.Of, now).All() // what they were made of was read before
	i, _ := slices.BinarySearchFunc(all, one, func(a, b Exception) int { return strings.Compare(a.Of.String(), b.Of.String()) })
	return exceptionsOf(slices.Insert(all, i, one))
}

// Current are the exceptions without those that have ended.
func (e Exceptions) Current(now time.Time) Exceptions {
	return e.drop(func(one Exception) bool { return one.ended(now) })
}

// Without are the exceptions but for that of a value, and those that have ended.
func (e Exceptions) Without(of Hash, now time.Time) Exceptions {
	return e.drop(func(one Exception) bool { return one.Of == of || one.ended(now) })
}

func (e Exceptions) drop(gone func(Exception) bool) Exceptions {
	all, _ := e.All() // what can't be read is none: see Unpack
	return exceptionsOf(slices.DeleteFunc(all, gone))
}

func exceptionsOf(all []Exception) Exceptions {
	words := make([]string, len(all))
	for i, one := range all {
		words[i] = one.String()
	}
	return Exceptions(strings.Join(words, " "))
}

// For are the terms that hold for one value of a gate's key at a time.
func (t Terms) For(of Hash, now time.Time) Terms {
	if one, found := t.Exceptions.Find(of, now); found {
		t.Cap = one.Cap
	}
	return t
}

// cutsOneValue reports whether the cap of one value is lower than in old, by an exception that
// was changed.
func (t Terms) cutsOneValue(old Terms) bool {
	return slices.ContainsFunc(ChangedExceptions(old.Exceptions, t.Exceptions), func(c ExceptionChange) bool {
		return cmp.Or(c.To, t.Cap) < cmp.Or(c.From, old.Cap)
	})
}

// checkExceptions refuses exceptions that the gate can't keep. With the gate's other terms each
// is a gate of its own.
func (t Terms) checkExceptions(faults *fault.List) {
	all, err := t.Exceptions.All()
	faults.Under("", err)
	faults.Refuse(len(all) > MaxExceptions, "exceptions", len(all), "must be at most %d; a limit of its own with a condition (when) serves more values", MaxExceptions)
	for _, one := range all {
		t.Cap = one.Cap
		for _, e := range fault.All(t.Beside(t).Contract.Validate()) {
			faults.Refuse(e.Field == "cap" || e.Field == "max_cost", "exceptions", one.String(), "%s: %v: %s", e.Field, e.Value, e.Remedy)
		}
	}
}

// ExceptionChange is how the cap of one value was changed; 0: it had none of its own.
type ExceptionChange struct {
	Of       Hash
	From, To int64
	Until    time.Time
}

// ChangedExceptions are those that are not the same in a and b.
func ChangedExceptions(a, b Exceptions) []ExceptionChange {
	before, _ := a.All() // what can't be read is shown as none: see Unpack
	after, _ := b.All()
	var changed []ExceptionChange
	for _, one := range after {
		i := slices.IndexFunc(before, func(old Exception) bool { return old.Of == one.Of })
		switch {
		case i < 0:
			changed = append(changed, ExceptionChange{one.Of, 0, one.Cap, one.Until})
		case before[i] != one:
			changed = append(changed, ExceptionChange{one.Of, before[i].Cap, one.Cap, one.Until})
		}
	}
	for _, old := range before {
		if !slices.ContainsFunc(after, func(one Exception) bool { return one.Of == old.Of }) {
			changed = append(changed, ExceptionChange{Of: old.Of, From: old.Cap})
		}
	}
	return changed
}

// String is the change in one phrase.
func (c ExceptionChange) String() string {
	number := func(n int64) string {
		if n == 0 {
			return "none"
		}
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("cap of %.8s… %s → %s", c.Of, number(c.From), number(c.To))
}
