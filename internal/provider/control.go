package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Control lets a test control a provider in another process:
//
//	POST /down, /up, /reset
//	POST /behave    a Behaviour as JSON, durations as text: {"latency":"20ms","status":429}
//	GET  /arrivals  all of them as JSON, see [Arrival]
//	GET  /report?cap=300&window=1s[&change=<unix ns>:<cap>…]   a Report as JSON
//
// A wrong request gets a 400 and the reason in plain text.
func Control(p *Provider) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /down", func(http.ResponseWriter, *http.Request) { p.Down() })
	mux.HandleFunc("POST /reset", func(http.ResponseWriter, *http.Request) { p.Reset() })
	mux.HandleFunc("POST /up", func(w http.ResponseWriter, r *http.Request) {
		if err := p.Up(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
	})
	mux.HandleFunc("POST /behave", func(w http.ResponseWriter, r *http.Request) {
		var b Behaviour
		body := yaml.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)) // all JSON is YAML
		body.KnownFields(true)
		if err := errors.Join(body.Decode(&b), b.Validate()); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		p.Behave(b)
	})
	mux.HandleFunc("GET /arrivals", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(p.Arrivals()) // the client went away
	})
	mux.HandleFunc("GET /report", func(w http.ResponseWriter, r *http.Request) {
		c, err := parseContract(r.URL.Query(), p.Since)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(p.Report(c)) // the client went away
	})
	return mux
}

func parseContract(q url.Values, since func(time.Time) time.Duration) (Contract, error) {
	window, err := time.ParseDuration(q.Get("window"))
	if err != nil || window <= 0 {
		return Contract{}, fmt.Errorf("window: %q is not a positive duration", q.Get("window"))
	}
	most, err := strconv.Atoi(q.Get("cap"))
	if err != nil || most < 0 {
		return Contract{}, fmt.Errorf("cap: %q is not a number of calls", q.Get("cap"))
	}
	c := Contract{Window: window, Caps: []CapFrom{{Cap: most}}}
	for _, change := range q["change"] {
		at, to, _ := strings.Cut(change, ":")
		ns, errAt := strconv.ParseInt(at, 10, 64)
		most, errTo := strconv.Atoi(to)
		if errAt != nil || errTo != nil || most < 0 {
			return Contract{}, fmt.Errorf("change: %q is not <unix ns>:<cap>", change)
		}
		next := CapFrom{From: since(time.Unix(0, ns)), Cap: most}
		if n := len(c.Caps); n > 1 && next.From < c.Caps[n-1].From {
			return Contract{}, fmt.Errorf("change: %q comes before its predecessor", change)
		}
		c.Caps = append(c.Caps, next)
	}
	return c, nil
}

// ReadArrivals reads the answer to GET /arrivals.
func ReadArrivals(r io.Reader) (all []Arrival, err error) {
	if err = json.NewDecoder(r).Decode(&all); err != nil {
		return nil, fmt.Errorf("read arrivals: %w", err)
	}
	return all, nil
}
