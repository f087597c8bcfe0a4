package provider

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Control lets a test control a provider in another process:
//
//	POST /down, /up, /reset
//	POST /behave    a Behaviour as JSON, durations as text: {"latency":"20ms","status":429}
//	GET  /arrivals  one line each, see [ReadArrivals]
//	GET  /epoch     the time from which arrivals count, in ns since 1970
//	GET  /report?cap=300&window=1s[&part=1][&change=<unix ns>:<cap>…]   a Report as JSON
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
		read := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&b)
		if err := errors.Join(read, b.Validate()); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		p.Behave(b)
	})
	mux.HandleFunc("GET /arrivals", func(w http.ResponseWriter, _ *http.Request) {
		_ = writeArrivals(w, p.Arrivals()) // the client went away
	})
	mux.HandleFunc("GET /epoch", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, p.epoch.UnixNano())
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
	if part := q.Get("part"); part != "" {
		if c.Part, err = strconv.Atoi(part); err != nil || c.Part < 0 {
			return Contract{}, fmt.Errorf("part: %q is not the number of a part of the key", part)
		}
	}
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

// UnmarshalJSON reads durations as text. An unknown field is an error.
func (b *Behaviour) UnmarshalJSON(data []byte) error {
	var in struct {
		Latency    duration `json:"latency"`
		Jitter     duration `json:"jitter"`
		Status     int      `json:"status"`
		RetryAfter duration `json:"retry_after"`
		Fault      Fault    `json:"fault"`
		Share      float64  `json:"share"`
		Every      int      `json:"every"`
		First      int      `json:"first"`
		Accepts    int      `json:"accepts"`
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		return fmt.Errorf("behaviour: %w", err)
	}
	*b = Behaviour{
		Latency: time.Duration(in.Latency), Jitter: time.Duration(in.Jitter), Status: in.Status,
		RetryAfter: time.Duration(in.RetryAfter), Fault: in.Fault, Share: in.Share, Every: in.Every, First: in.First, Accepts: in.Accepts,
	}
	return nil
}

type duration time.Duration

func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = duration(parsed)
	return err
}

// writeArrivals writes a line each: nanoseconds, status, node, key.
func writeArrivals(w io.Writer, arrivals []Arrival) error {
	bw := bufio.NewWriterSize(w, 64<<10)
	var line []byte
	for _, a := range arrivals {
		line = strconv.AppendInt(line[:0], int64(a.At), 10)
		line = append(line, ' ')
		line = strconv.AppendInt(line, int64(a.Status), 10)
		line = append(line, ' ')
		line = strconv.AppendInt(line, int64(a.Node), 10)
		line = append(line, ' ')
		line = append(line, a.Key...)
		if _, err := bw.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return bw.Flush()
}

// ReadArrivals reads the answer to GET /arrivals: a line for each arrival with its time
// in nanoseconds, status, node and key, separated by one space. The error names the
// line.
func ReadArrivals(r io.Reader) ([]Arrival, error) {
	var out []Arrival
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		at, rest, _ := strings.Cut(lines.Text(), " ")
		status, rest, _ := strings.Cut(rest, " ")
		node, key, found := strings.Cut(rest, " ")
		ns, errAt := strconv.ParseInt(at, 10, 64)
		code, errStatus := strconv.Atoi(status)
		number, errNode := strconv.ParseUint(node, 10, 8)
		if errAt != nil || errStatus != nil || errNode != nil || !found {
			return nil, fmt.Errorf("read arrivals: line %d is not <ns> <status> <node> <key>", n)
		}
		out = append(out, Arrival{At: time.Duration(ns), Status: code, Node: int(number), Key: key})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read arrivals: %w", err)
	}
	return out, nil
}
