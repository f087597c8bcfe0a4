package provider

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Fault is a way to leave a call without an answer.
type Fault string

// The faults.
const (
	NoFault Fault = ""
	Hang    Fault = "hang" // keep the connection open, and do not answer
	Cut     Fault = "cut"  // close the connection once the call has been read
)

// Behaviour is how calls are answered from now on. The zero value accepts every call
// at once.
type Behaviour struct {
	Latency time.Duration // before each answer
	Jitter  time.Duration // up to this much more, evenly spread

	Status     int           // default 200
	RetryAfter time.Duration // sent with the status, in whole seconds rounded up; 0: not sent
	Fault      Fault         // instead of the status

	// Share is the share of calls that get the status or the fault, from 0 to 1; chance selects them. 0: all that Every and
	// First select.
	Share float64

	// Every and First select the calls that get the status or the fault: every n-th,
	// and only the first n. 0: all. Other calls are accepted.
	Every int
	First int

	// Accepts is how many calls are accepted in any second; only those above get the status or the
	// fault, and are not counted. 0: no bound.
	Accepts int
}

// Validate returns an error with each wrong field and its value.
func (b Behaviour) Validate() error {
	var errs []error
	if b.Latency < 0 || b.Jitter < 0 || b.RetryAfter < 0 {
		errs = append(errs, fmt.Errorf("latency %v, jitter %v, retry_after %v: none may be negative", b.Latency, b.Jitter, b.RetryAfter))
	}
	if b.Status != 0 && (b.Status < 200 || b.Status > 599) {
		errs = append(errs, fmt.Errorf("status: %d is not between 200 and 599", b.Status))
	}
	if b.Fault != NoFault && b.Fault != Hang && b.Fault != Cut {
		errs = append(errs, fmt.Errorf("fault: %q is neither %q nor %q", b.Fault, Hang, Cut))
	}
	if b.Share < 0 || b.Share > 1 {
		errs = append(errs, fmt.Errorf("share: %v is not between 0 and 1", b.Share))
	}
	if b.Every < 0 || b.First < 0 || b.Accepts < 0 {
		errs = append(errs, fmt.Errorf("every %d, first %d, accepts %d: none may be negative", b.Every, b.First, b.Accepts))
	}
	return errors.Join(errs...)
}

// Answer is the answer to one call.
type Answer struct {
	Delay      time.Duration
	Status     int // 0: 200
	RetryAfter time.Duration
	Fault      Fault
}

// script is a behaviour in use; it counts its calls.
type script struct {
	Behaviour
	asked atomic.Int64

	mu       sync.Mutex
	accepted []time.Time // of the last second, with Accepts
}

func (s *script) next() Answer {
	a := Answer{Delay: s.Latency}
	if s.Jitter > 0 {
		a.Delay += time.Duration(rand.Int64N(int64(s.Jitter) + 1))
	}
	n := int(s.asked.Add(1))
	if s.Accepts > 0 && s.accepts(time.Now()) {
		return a
	}
	if (s.Every <= 1 || n%s.Every == 0) && (s.First == 0 || n <= s.First) && (s.Share == 0 || rand.Float64() < s.Share) {
		a.Status, a.RetryAfter, a.Fault = s.Status, s.RetryAfter, s.Fault
	}
	return a
}

// accepts counts a call, unless so many were accepted in the second before.
func (s *script) accepts(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.accepted) > 0 && now.Sub(s.accepted[0]) >= time.Second {
		s.accepted = s.accepted[1:]
	}
	if len(s.accepted) >= s.Accepts {
		return false
	}
	s.accepted = append(s.accepted, now)
	return true
}

// accepted is the answer that nearly every call gets, made once.
const accepted = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

// render makes the bytes of an answer, without a body.
func (a Answer) render() string {
	if a.Status == 0 || a.Status == http.StatusOK && a.RetryAfter == 0 {
		return accepted
	}
	head := "HTTP/1.1 " + strconv.Itoa(a.Status) + " " + http.StatusText(a.Status) + "\r\n"
	if a.RetryAfter > 0 {
		seconds := (a.RetryAfter + time.Second - 1) / time.Second
		head += "Retry-After: " + strconv.FormatInt(int64(seconds), 10) + "\r\n"
	}
	if a.Status != http.StatusNoContent && a.Status != http.StatusNotModified {
		head += "Content-Length: 0\r\n"
	}
	return head + "\r\n"
}
