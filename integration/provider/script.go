package main

import (
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dispatcher/internal/provider"
)

// script answers a call by what its idempotency key begins with, up to the first
// dash:
//
//	reject  400
//	twice   503 for the first two calls of the key
//	shaky   503 for one call in ten, the same ones in each run
//	refuse  503 until POST /release
//	hang    no answer until POST /release
//	slow    after two seconds until POST /release
//
// All else is accepted.
type script struct {
	latency  time.Duration
	released atomic.Bool

	mu    sync.Mutex
	calls map[string]int // by key, of those whose number matters
}

func newScript(latency time.Duration) *script {
	return &script{latency: latency, calls: map[string]int{}}
}

func (s *script) answer(_ int, key string) provider.Answer {
	a := provider.Answer{Delay: s.latency}
	outcome, _, _ := strings.Cut(key, "-")
	switch outcome {
	case "reject":
		a.Status = http.StatusBadRequest
	case "twice":
		if s.nth(key) <= 2 {
			a.Status = http.StatusServiceUnavailable
		}
	case "shaky":
		if shaken(key, s.nth(key)) {
			a.Status = http.StatusServiceUnavailable
		}
	case "refuse":
		if !s.released.Load() {
			a.Status = http.StatusServiceUnavailable
		}
	case "hang":
		if !s.released.Load() {
			a.Fault = provider.Hang
		}
	case "slow":
		if !s.released.Load() {
			a.Delay = 2 * time.Second
		}
	}
	return a
}

// nth counts the calls of a key, from 1.
func (s *script) nth(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[key]++
	return s.calls[key]
}

// shaken is a coin that falls the same way each time.
func shaken(key string, n int) bool {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key)) // never fails
	return rand.NewPCG(h.Sum64(), uint64(n)).Uint64()%10 == 0
}

// control adds POST /release to what a provider understands.
func (s *script) control(rest http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", rest)
	mux.HandleFunc("POST /release", func(http.ResponseWriter, *http.Request) { s.released.Store(true) })
	return mux
}
