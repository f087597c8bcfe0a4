package api

import (
	"net/http"
	"strconv"

	"dispatcher/internal/fault"
	"dispatcher/internal/limits"
	"dispatcher/throttle/limit"
)

func (a *api) list(r *http.Request) (any, error) { return a.List(r.Context()) }

func (a *api) get(r *http.Request) (any, error) {
	q := r.URL.Query()
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
	n := fewLines
	if text := r.URL.Query().Get("n"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > mostLines {
			return nil, fault.New("n", text, "must be a whole number from 1 to "+strconv.Itoa(mostLines))
		}
	}
	operator, err := a.Control(r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	return limits.History(r.Context(), operator, n)
}

// nodeJSON is one node of the fleet, as of its last record in Redis.
type nodeJSON struct {
	Name    string  `json:"name"`
	ID      string  `json:"id"`       // unique per start
	SeenS   float64 `json:"seen_s"`   // ago
	Missing bool    `json:"missing"`  // it died, stands still or is cut off
	InForce bool    `json:"in_force"` // it knows the settings of the first limit
	Binds   float64 `json:"binds"`    // share of the last half minute in which its jobs waited for the first limit
}

func (a *api) nodes(r *http.Request) (any, error) {
	ctx := r.Context()
	operator, err := a.Control(a.First())
	if err != nil {
		return nil, err
	}
	now, err := operator.Get(ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := operator.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]nodeJSON, len(nodes))
	for i, n := range nodes {
		all[i] = nodeJSON{Name: n.Name, ID: n.ID, SeenS: n.Seen.Seconds(), Missing: n.Missing(), InForce: n.Has(now), Binds: n.Binds}
	}
	return all, nil
}
