package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"dispatcher/internal/fault"
)

const (
	minToken   = 16 // bytes
	maxToken   = 1 << 10
	maxFile    = 4 << 10 // with the white space around the token
	checkEvery = time.Second
)

// known is a token as its file held it last.
type known struct {
	Token

	sum  [sha256.Size]byte
	file os.FileInfo // of which the sum is
}

// tokens follow their files. The methods may be called from any goroutine.
type tokens struct {
	log *slog.Logger

	mu       sync.Mutex // never held while a file is read
	good     []known    // never changed, only replaced
	checked  time.Time
	checking bool
	failing  map[string]bool // the names whose last read failed, and was logged; "": two tokens were the same
}

// open reads all files. Its error joins those of all tokens.
func open(s Settings, log *slog.Logger) (*tokens, error) {
	t := &tokens{log: log, good: make([]known, len(s.Tokens)), checked: time.Now(), failing: make(map[string]bool)}
	var l fault.List
	for i, token := range s.Tokens {
		next, err := read(token)
		l.Refuse(err != nil, "tokens."+strconv.Itoa(i)+".file", token.File, "%v", err)
		t.good[i] = next
	}
	if err := l.Err(); err != nil {
		return nil, err
	}
	if i, other := twins(t.good); i >= 0 {
		return nil, fault.New("tokens."+strconv.Itoa(i)+".file", s.Tokens[i].File, "holds the same token as that of "+s.Tokens[other].Name+": give each a token of its own")
	}
	return t, nil
}

// find compares a text with every token, in a time that does not depend on which one it is.
func (t *tokens) find(text string) (Caller, bool) {
	all := t.now()
	sum := sha256.Sum256([]byte(text))
	found := -1
	for i := range all {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], all[i].sum[:]), i, found)
	}
	if found < 0 {
		return Caller{}, false
	}
	return Caller{Name: all[found].Name, Role: all[found].Role}, true
}

// now are the tokens that are in use. It checks the files if that was not done for a second.
func (t *tokens) now() []known {
	t.mu.Lock()
	all := t.good
	if t.checking || time.Since(t.checked) < checkEvery {
		t.mu.Unlock()
		return all
	}
	t.checking, t.checked = true, time.Now()
	t.mu.Unlock()

	next, failed := again(all)

	t.mu.Lock()
	defer t.mu.Unlock()
	t.checking = false
	t.take(next, failed)
	return t.good
}

// again reads the files that are other ones than before. A token that can't be read stays as it was.
func again(all []known) (next []known, failed map[string]error) {
	next, failed = make([]known, len(all)), make(map[string]error)
	for i, old := range all {
		next[i] = old
		if info, err := os.Stat(old.File); err == nil && same(info, old.file) {
			continue
		}
		if k, err := read(old.Token); err == nil {
			next[i] = k
		} else {
			failed[old.Name] = err
		}
	}
	return next, failed
}

func same(a, b os.FileInfo) bool {
	return a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size() && os.SameFile(a, b)
}

// take uses what was read. With two tokens alike all stay as they were. The caller holds the lock.
func (t *tokens) take(next []known, failed map[string]error) {
	if i, other := twins(next); i >= 0 {
		failed[""] = fmt.Errorf("the tokens of %s and %s are the same", next[other].Name, next[i].Name)
		next = t.good
	}
	for i, k := range next {
		if k.sum != t.good[i].sum {
			t.log.Info("admin token changed", "name", k.Name, "file", k.File)
		}
		t.note(k.Name, failed[k.Name])
	}
	t.note("", failed[""])
	t.good = next
}

// note logs a failure once, and its end. The caller holds the lock.
func (t *tokens) note(name string, err error) {
	switch {
	case err != nil && !t.failing[name]:
		t.log.Warn("admin tokens could not be read again; the last good ones stay in use", "name", name, "error", err)
	case err == nil && t.failing[name]:
		t.log.Info("admin tokens can be read again", "name", name)
	}
	t.failing[name] = err != nil
}

// twins are the places of two tokens that are the same; -1: there are none.
func twins(all []known) (place, other int) {
	places := make(map[[sha256.Size]byte]int, len(all))
	for i, k := range all {
		if other, taken := places[k.sum]; taken {
			return i, other
		}
		places[k.sum] = i
	}
	return -1, -1
}

// read reads the token of a file. The state of the file is taken first, so that a change meanwhile is seen the next time. It takes
// regular files only: a pipe or a device could block a request for ever.
func read(t Token) (known, error) {
	info, err := os.Stat(t.File)
	if err != nil {
		return known{}, reason(err)
	}
	if !info.Mode().IsRegular() {
		return known{}, errors.New("is no regular file")
	}
	f, err := os.Open(t.File)
	if err != nil {
		return known{}, reason(err)
	}
	defer func() { _ = f.Close() }()
	held, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return known{}, reason(err)
	}
	text := strings.TrimSpace(string(held))
	switch {
	case text == "":
		return known{}, errors.New("is empty: put a token into it")
	case len(held) > maxFile || len(text) > maxToken:
		return known{}, fmt.Errorf("holds more than a token of %d bytes", maxToken)
	case len(text) < minToken:
		return known{}, fmt.Errorf("holds a token of %d bytes: it must have at least %d", len(text), minToken)
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return known{}, errors.New("must hold one word of visible ASCII characters")
	}
	return known{Token: t, sum: sha256.Sum256([]byte(text)), file: info}, nil
}

// reason is why a file can't be read, without its path, which stands beside it.
func reason(err error) error {
	if at, ok := errors.AsType[*os.PathError](err); ok {
		err = at.Err
	}
	return fmt.Errorf("can't be read: %w", err)
}
