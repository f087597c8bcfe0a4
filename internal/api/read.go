package api

import (
	"encoding/json"
	"net/http"
	"strconv"

	"dispatcher/internal/expression"
	"dispatcher/internal/fault"
	"dispatcher/internal/limits"
	"dispatcher/throttle/limit"
)

func (a *api) list(r *http.Request) (any, error) { return a.List(r.Context()) }

func (a *api) get(r *http.Request) (any, error) {
	q := r.URL.Query()
	for _, name := range []string{"key", "hash"} {
		if q.Has(name) && q.Get(name) == "" {
			return nil, fault.New(name, "", "is empty: leave it out, or name a value of the limit's key")
		}
	}
	of, err := valueOf(q.Get("key"), q.Get("hash"))
	if err != nil {
		return nil, err
	}
	return a.Read(r.Context(), r.PathValue("name"), of)
}

// valueOf is the value of a limit's key that a request names; nil: none.
func valueOf(key, hash string) (*limit.Hash, error) {
	switch {
	case key != "" && hash != "":
		return nil, fault.New("hash", hash, "names the same as key: leave one of them out")
	case len(key) > expression.MaxKeyBytes:
		return nil, fault.New("key", shown(json.RawMessage(key)), "must have at most "+strconv.Itoa(expression.MaxKeyBytes)+" bytes")
	case key != "":
		of := limit.HashOf(key)
		return &of, nil
	case hash != "":
		of, err := limit.ParseHash(hash)
		return &of, err
	}
	return nil, nil //nolint:nilnil // none is named
}

const (
	fewLines  = 20
	mostLines = 1000
)

func (a *api) history(r *http.Request) (any, error) {
	n, err := within(r, "n", fewLines, mostLines)
	if err != nil {
		return nil, err
	}
	q := r.URL.Query()
	only := q.Get("only")
	if q.Has("only") && only != "changes" {
		return nil, fault.New("only", shown(json.RawMessage(only)), "must be changes; leave it out to read events as well")
	}
	operator, err := a.Control(r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	if only == "changes" {
		return limits.Changes(r.Context(), operator, n)
	}
	return limits.History(r.Context(), operator, n)
}
