package auth

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"dispatcher/internal/loopback"
	"dispatcher/internal/problem"
)

// maxWrong is how many wrong tokens in a second get a 401.
const maxWrong = 10

// Caller is who makes a request, by the request's token.
type Caller struct {
	Name string
	Role Role
}

type callerKey struct{}

// From is the caller of a request. There is none where the server asks for no tokens.
func From(ctx context.Context) (Caller, bool) {
	c, ok := ctx.Value(callerKey{}).(Caller)
	return c, ok
}

// Options for [New].
type Options struct {
	Settings

	// Loopback: the server can be reached from its own host alone. It matters where there are no tokens.
	Loopback bool
	Logger   *slog.Logger // nil: nothing is logged
}

// Guard lets requests through to a handler.
type Guard struct {
	tokens   *tokens // nil: nobody is asked for one
	loopback bool

	mu     sync.Mutex
	second time.Time // when the first of the wrong tokens came
	wrong  int       // in the second that began then
}

// New reads the tokens from their files. Its error names all that can't be used, and holds none.
func New(o Options) (*Guard, error) {
	if len(o.Tokens) == 0 {
		return &Guard{loopback: o.Loopback}, nil
	}
	t, err := open(o.Settings, cmp.Or(o.Logger, slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	return &Guard{tokens: t}, nil
}

// Handler serves by next the requests that may pass.
func (g *Guard) Handler(next http.Handler) http.Handler {
	switch {
	case g.tokens != nil:
		return g.asking(next)
	case g.loopback:
		return ownHost(next)
	}
	return next
}

// Trusts tells whether a request may learn how the node does: it has a token or, without tokens, is made on this host. Unlike
// [Guard.Handler] it serves callers that have no token, such as probes.
func (g *Guard) Trusts(r *http.Request) bool {
	if g.tokens == nil {
		return g.loopback && isLoopback(r.Host)
	}
	token, given := bearer(r.Header)
	if !given {
		return false
	}
	_, ok := g.tokens.find(token)
	return ok
}

func (g *Guard) asking(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, given := bearer(r.Header)
		if !given {
			unauthorized(w, "a token is needed: Authorization: Bearer TOKEN")
			return
		}
		caller, ok := g.tokens.find(token)
		if !ok {
			g.refuse(w)
			return
		}
		if caller.Role != Operator && r.Method != http.MethodGet && r.Method != http.MethodHead {
			problem.Write(w, problem.Error{Status: http.StatusForbidden, Detail: "the token of " + caller.Name + " may read and change nothing: that takes one of an operator"})
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, caller)))
	})
}

// refuse answers a wrong token.
func (g *Guard) refuse(w http.ResponseWriter) {
	if g.tooMany(time.Now()) {
		w.Header().Set("Retry-After", "1")
		problem.Write(w, problem.Error{Status: http.StatusTooManyRequests, Detail: "too many wrong tokens came in this second"})
		return
	}
	unauthorized(w, "the token is not known")
}

// tooMany counts a wrong token, and tells whether it is one too many of its second.
func (g *Guard) tooMany(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Sub(g.second) >= time.Second {
		g.second, g.wrong = now, 0
	}
	g.wrong++
	return g.wrong > maxWrong
}

func unauthorized(w http.ResponseWriter, detail string) {
	w.Header().Set("WWW-Authenticate", "Bearer")
	problem.Write(w, problem.Error{Status: http.StatusUnauthorized, Detail: detail})
}

// bearer is the token of a request. One header with one space in it has a token; case matters in the token alone.
func bearer(h http.Header) (token string, given bool) {
	all := h.Values("Authorization")
	if len(all) != 1 {
		return "", false
	}
	scheme, token, given := strings.Cut(all[0], " ")
	return token, given && strings.EqualFold(scheme, "Bearer")
}

// ownHost refuses requests under the name of another host: a page of that host may have made them.
func ownHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopback(r.Host) {
			problem.Write(w, problem.Error{
				Status: http.StatusMisdirectedRequest, Detail: "without admin.auth.tokens this server answers on loopback alone: call it as localhost or 127.0.0.1",
			})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isLoopback reports whether a host, perhaps with a port, names this machine.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return loopback.Is(strings.Trim(host, "[]"))
}
