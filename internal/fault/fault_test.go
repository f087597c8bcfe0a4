package fault_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"dispatcher/internal/fault"
)

func TestFaultsNameFieldValueAndRemedy(t *testing.T) {
	t.Parallel()
	var own, outer fault.List
	own.Refuse(false, "fine", 1, "never shown")
	own.Refuse(true, "url", "ftp://x", "must begin with %s", "http://")
	own.Within("workers", 0, 1, 8)
	own.Between("timeout", time.Minute, time.Second, 5*time.Second)
	own.OneOf("order", "any", "key", "none")
	own.Refuse(true, "lanes", fault.Entries(17), "at most 16")
	own.Refuse(true, "password", fault.Hidden, "must not be empty")
	outer.Under("sender.http", own.Err())
	outer.Under("sender.tls", errors.New("no such file"))
	outer.Under("redis", nil)
	want := strings.Join([]string{
		`sender.http.url: "ftp://x": must begin with http://`,
		`sender.http.workers: 0: must be from 1 to 8`,
		`sender.http.timeout: 1m0s: must be from 1s to 5s`,
		`sender.http.order: "any": must be one of key, none`,
		`sender.http.lanes: 17 entries: at most 16`,
		`sender.http.password: (hidden): must not be empty`,
		`sender.tls: refused: no such file`,
	}, "\n")
	if got := outer.Err().Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Whoever wraps the faults of a set leaves all of them to be found.
func TestWrappedFaultsAreTakenApart(t *testing.T) {
	t.Parallel()
	var l fault.List
	l.Within("workers", 0, 1, 8)
	l.OneOf("order", "any", "key")
	all := fault.All(fmt.Errorf("limit %q: %w", "provider", fmt.Errorf("change: %w", l.Err())))
	if len(all) != 2 || all[0].Field != "workers" || all[1].Field != "order" {
		t.Errorf("got %v, want both faults", all)
	}
	if one := fault.All(fmt.Errorf("limit: %w", fault.New("cap", 0, "must be at least 1"))); len(one) != 1 || one[0].Field != "cap" {
		t.Errorf("got %v, want the fault", one)
	}
}

func TestNoFaultIsNoError(t *testing.T) {
	t.Parallel()
	var l fault.List
	l.Within("n", 1, 1, 1)
	if err := l.Err(); err != nil {
		t.Errorf("got %v, want nil", err)
	}
}

func TestALongTextIsShownInPart(t *testing.T) {
	t.Parallel()
	var l fault.List
	l.OneOf("mode", strings.Repeat("x", 1<<20), "a")
	if got := len(l.Err().Error()); got > 300 {
		t.Errorf("got %d bytes, want at most 300", got)
	}
	const most = 80
	fill := strings.Repeat("x", most-1)
	got := fault.New("mode", fill+"éy", "must be a").Error()
	if want := `mode: "` + fill + `"…: must be a`; got != want {
		t.Errorf("got %s, want %s: no part of a letter", got, want)
	}
}

// An address and a URL hold no credentials, and an error shows none.
func TestAddressesAndURLs(t *testing.T) {
	t.Parallel()
	var l fault.List
	l.Address("a", "h:1", 1)
	l.Address("a", ":0", 0)
	l.URL("u", "https://h/path?x=1", "headers")
	if l.Err() != nil {
		t.Errorf("got %v, want no fault", l.Err())
	}
	l.Address("a", "h", 1)
	l.Address("a", ":1", 1)
	l.Address("a", "h:0", 1)
	l.Address("a", "u:hush@h:1", 1)
	l.URL("u", "ftp://h", "headers")
	l.URL("u", "http://h:99999", "headers")
	l.URL("u", "http://u:hush@h", "headers")
	l.URL("u", "http://h#hash", "headers")
	want := strings.Join([]string{
		`a: "h": must be host:port`,
		`a: ":1": has no host`,
		`a: "h:0": must be host:port`,
		`a: (hidden): must be host:port and no more; credentials have keys of their own`,
		`u: "ftp://h": must be an http:// or https:// URL with a host`,
		`u: "http://h:99999": has a port that is none`,
		`u: (hidden): holds a user; put credentials into headers`,
		`u: "http://h#hash": holds a fragment, which is never sent`,
	}, "\n")
	if got := l.Err().Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
