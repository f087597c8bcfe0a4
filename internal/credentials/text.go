package credentials

import (
	"cmp"
	"errors"
	"log/slog"
	"sync"
)

// errEmpty: a file is empty for a moment while it is written.
var errEmpty = errors.New("it is empty")

// Text is a setting that is read again each time. Its methods may be called from
// any goroutine.
type Text struct {
	setting string
	read    func() (string, error)
	log     *slog.Logger

	mu     sync.Mutex // never held while a file is read
	good   string
	warned bool // the last read failed, and was logged
}

// NewText makes a text with its current value, and with a function that reads it again;
// nil: it never changes. The setting is its name in the log. A nil log discards.
func NewText(setting, now string, read func() (string, error), log *slog.Logger) *Text {
	return &Text{setting: setting, read: read, log: cmp.Or(log, slog.New(slog.DiscardHandler)), good: now}
}

// Now reads the text and returns it. If it can't be read, or has become empty, Now
// returns the last good one.
func (t *Text) Now() string {
	if t.read == nil {
		return t.good
	}
	text, err := t.read()
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil && text == "" && t.good != "" {
		err = errEmpty
	}
	switch {
	case err != nil && !t.warned:
		t.log.Warn("a credential could not be read again; the last good one stays in use", "setting", t.setting, "error", err)
	case err == nil && text != t.good:
		t.log.Info("a credential changed; new connections use it", "setting", t.setting)
	case err == nil && t.warned:
		t.log.Info("a credential can be read again", "setting", t.setting)
	}
	if t.warned = err != nil; !t.warned {
		t.good = text
	}
	return t.good
}
