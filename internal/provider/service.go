package provider

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"dispatcher/internal/wait"
)

// maxBody is how much of a request's body is read; a longer one is refused.
const maxBody = 4 << 20

// service is a listener and its connections, from Up to Down.
type service struct {
	listener net.Listener
	ctx      context.Context //nolint:containedctx // of the service, which ends with close
	cancel   context.CancelFunc

	mu    sync.Mutex
	conns map[net.Conn]struct{} // nil: closed
}

// run accepts until the service is closed, and returns when every connection
// has ended.
func (s *service) run(p *Provider) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		c, err := s.listener.Accept()
		switch {
		case err == nil && s.add(c):
			wg.Go(func() { s.serve(p, c) })
		case err == nil:
			_ = c.Close()
			return
		case errors.Is(err, net.ErrClosed) || !wait.For(s.ctx, 10*time.Millisecond):
			return // other errors, such as too few descriptors, may pass
		}
	}
}

func (s *service) add(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *service) remove(c net.Conn) {
	_ = c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

func (s *service) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel()
	_ = s.listener.Close()
	for c := range s.conns {
		_ = c.Close()
	}
	s.conns = nil
}

// serve answers the calls of one connection, one after the other.
func (s *service) serve(p *Provider, c net.Conn) {
	defer s.remove(c)
	in := newStamped(c, p.epoch)
	br := bufio.NewReaderSize(in, 16<<10)
	for {
		// A call that was sent before its predecessor was answered has the time of the
		// read that returned both.
		if _, err := br.Peek(1); err != nil {
			return
		}
		if !s.answer(p, in.last, br, c) {
			return
		}
	}
}

// answer reads one call, records it and answers it. It reports whether the connection
// can carry another one.
func (s *service) answer(p *Provider, at stamp, br *bufio.Reader, c net.Conn) bool {
	req, err := http.ReadRequest(br)
	if err != nil {
		p.log.add(at, "", http.StatusBadRequest, 0) // it arrived, whatever it was
		return false
	}
	key := req.Header.Get("Idempotency-Key")
	a := p.decide(key)
	node, _ := strconv.ParseUint(req.Header.Get(NodeHeader), 10, 8) // 0: not stated
	r := p.log.add(at, key, a.recorded(), uint8(node))
	if readBody(req) && s.give(p, a, br, c) {
		return !req.Close && !p.opts.OneCall
	}
	r.unanswered()
	return false
}

// give answers a call, and reports whether it has an answer.
func (s *service) give(p *Provider, a Answer, br *bufio.Reader, c net.Conn) bool {
	if a.Fault == Hang {
		_, _ = br.Peek(1) // until either side closes
		return false
	}
	if a.Delay > 0 && !wait.For(s.ctx, a.Delay) || a.Fault == Cut {
		return false
	}
	answer := a.render()
	if p.opts.OneCall {
		answer = strings.Replace(answer, "\r\n", "\r\nConnection: close\r\n", 1)
	}
	_, err := io.WriteString(c, answer)
	return err == nil
}

func (p *Provider) decide(key string) Answer {
	if p.opts.Answer != nil {
		return p.opts.Answer(int(p.asked.Add(1)-1), key)
	}
	return p.script.Load().next()
}

// recorded is the status in the log: 0 for a call that gets no answer.
func (a Answer) recorded() int {
	switch {
	case a.Fault != NoFault:
		return 0
	case a.Status == 0:
		return http.StatusOK
	}
	return a.Status
}

func readBody(req *http.Request) bool {
	if req.Body == http.NoBody {
		return true
	}
	n, err := io.Copy(io.Discard, io.LimitReader(req.Body, maxBody+1))
	return err == nil && n <= maxBody
}
