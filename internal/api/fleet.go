package api

import (
	"encoding/json"
	"net/http"
	"strconv"

	"dispatcher/internal/fault"
	"dispatcher/internal/figures"
	"dispatcher/internal/overview"
	"dispatcher/internal/why"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/parameters"
)

// ofFleet serves a part of the overview.
func (a *api) ofFleet(part func(*overview.Fleet) any) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		f, err := a.fleet.Read(r.Context())
		if err != nil {
			return nil, err
		}
		return part(f), nil
	}
}

// aged is a list of what nodes said, and how old the oldest part that counts is.
type aged struct {
	AgeS  *float64 `json:"age_s"` // null: no node said anything of late
	Lanes any      `json:"lanes,omitempty"`
	Topic any      `json:"topics,omitempty"`
	Keys  any      `json:"keys,omitempty"`
}

func ageOf(f *overview.Fleet) *float64 {
	var most *float64
	for _, n := range f.Nodes {
		if !n.Stale && (most == nil || n.AgeS > *most) {
			most = &n.AgeS
		}
	}
	return most
}

func nodesOf(f *overview.Fleet) any    { return f.Nodes }
func overviewOf(f *overview.Fleet) any { return f }
func healthOf(f *overview.Fleet) any   { return f.Health }
func lanesOf(f *overview.Fleet) any    { return aged{AgeS: ageOf(f), Lanes: f.Lanes} }
func keysOf(f *overview.Fleet) any     { return aged{AgeS: ageOf(f), Keys: f.Keys} }
func topicsOf(f *overview.Fleet) any   { return aged{AgeS: ageOf(f), Topic: f.Topics} }

const fewSeconds = 900

// calls are the fleet's calls in each of the last seconds.
func (a *api) calls(r *http.Request) (any, error) {
	seconds, err := within(r, "seconds", fewSeconds, figures.MostSeconds)
	if err != nil {
		return nil, err
	}
	operator, err := a.Control(a.First())
	if err != nil {
		return nil, err
	}
	now, err := operator.Now(r.Context())
	if err != nil {
		return nil, err
	}
	return figures.ReadCalls(r.Context(), a.Redis, a.Config.Redis.Namespace, now, seconds)
}

// forecast says when the jobs that wait will be gone, with the settings that the query names: ?cap=150&window=1s.
func (a *api) forecast(r *http.Request) (any, error) {
	values := parameters.Values{}
	for name, all := range r.URL.Query() {
		values[name] = all[0] // [checkQuery] has refused a second one
	}
	if err := known(values); err != nil {
		return nil, err
	}
	return a.fleet.Preview(r.Context(), control.Change{Values: values})
}

// why asks the nodes what a job or a limit waits for.
func (a *api) why(r *http.Request) (any, error) {
	q := r.URL.Query()
	job, name := q.Get("job"), q.Get("limit")
	if (job == "") == (name == "") || q.Has("job") && q.Has("limit") {
		return nil, fault.New("job", job, "name a job or a limit: ?job=ID, ?job=topic/partition/offset or ?limit=NAME")
	}
	if len(job) > why.MostAsked {
		return nil, fault.New("job", shown(json.RawMessage(job)), "must have at most "+strconv.Itoa(why.MostAsked)+" bytes")
	}
	if name != "" {
		if err := limit.CheckName("limit", name); err != nil {
			return nil, err
		}
	}
	return why.AskAll(r.Context(), a.Redis, a.Config.Redis.Namespace, a.First(), why.Question{Job: job, Limit: name})
}

// within is a whole number of the query, from 1 to most.
func within(r *http.Request, name string, usual, most int) (int, error) {
	q := r.URL.Query()
	if !q.Has(name) {
		return usual, nil
	}
	text := q.Get(name)
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, fault.New(name, shown(json.RawMessage(text)), "must be a whole number from 1 to "+strconv.Itoa(most))
	}
	return n, nil
}
