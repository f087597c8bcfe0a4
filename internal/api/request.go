package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"dispatcher/internal/audit"
	"dispatcher/internal/auth"
	"dispatcher/internal/clip"
	"dispatcher/internal/fault"
	"dispatcher/internal/problem"
	"dispatcher/throttle/control"
	"dispatcher/throttle/limit/parameters"
)

// checkQuery refuses a query that can't be read, or that states a parameter twice: one of the two would be ignored.
func checkQuery(r *http.Request) error {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return problem.Error{Status: http.StatusBadRequest, Detail: "the query of the URL can't be read"}
	}
	var faults fault.List
	for name, all := range q {
		faults.Refuse(len(all) > 1, shown(json.RawMessage(name)), shown(json.RawMessage(all[0])), "is stated %d times: state it once", len(all))
	}
	return faults.Err()
}

// waits tells whether a change is to be answered once all nodes know it.
func waits(r *http.Request) (bool, error) {
	q := r.URL.Query()
	switch text := q.Get("wait"); {
	case text == "true":
		return true, nil
	case text == "false", !q.Has("wait"):
		return false, nil
	default:
		return false, fault.New("wait", shown(json.RawMessage(text)), "must be true or false")
	}
}

// body are the members of a JSON object that were not taken yet.
type body map[string]json.RawMessage

// readBody reads the object of a request. An empty body is an empty object.
func readBody(r *http.Request) (body, error) {
	text, err := io.ReadAll(r.Body)
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, problem.Error{Status: http.StatusRequestEntityTooLarge, Detail: "the body must have at most " + strconv.Itoa(maxBody) + " bytes"}
	}
	if err != nil {
		return nil, problem.Error{Status: http.StatusBadRequest, Detail: "the body could not be read"}
	}
	b := body{}
	if len(text) == 0 {
		return b, nil
	}
	if err := json.Unmarshal(text, &b); err != nil || b == nil {
		return nil, problem.Error{Status: http.StatusBadRequest, Detail: "the body must be a JSON object"}
	}
	return b, nil
}

// take reads a member into a value, if it is there.
func (b body) take(name string, into any) error {
	raw, given := b[name]
	if !given {
		return nil
	}
	delete(b, name)
	if err := json.Unmarshal(raw, into); err != nil || isNull(raw) {
		return fault.New(name, shown(raw), "must be "+kindOf(into))
	}
	return nil
}

// isNull: a member that is null would pass for an empty one.
func isNull(raw json.RawMessage) bool { return string(raw) == "null" }

func kindOf(v any) string {
	switch v.(type) {
	case *string:
		return "text"
	case *bool:
		return "true or false"
	case *[]string:
		return "a list of texts"
	case *float64:
		return "a number"
	}
	return "a whole number"
}

// shown is the beginning of a value, for an error.
func shown(raw json.RawMessage) string {
	const most = 80
	return clip.Shown(string(raw), most)
}

// takes says what a request may state of a change, beside who asks for it and why.
type takes int

const (
	nothingMore   takes = iota
	anEnd               // for
	anEndAndForce       // for, force
)

// change takes what the request may state of a change.
func (b body) change(r *http.Request, more takes) (ch control.Change, err error) {
	if _, err := waits(r); err != nil {
		return ch, err
	}
	var lasts, by string
	if own, stated := b["by"]; stated {
		if _, known := auth.From(r.Context()); known {
			return ch, fault.New("by", shown(own), "leave it out: the token names you")
		}
	}
	err = errors.Join(b.take("by", &by), b.take("why", &ch.Why))
	if more >= anEnd {
		err = errors.Join(err, b.take("for", &lasts))
	}
	if more >= anEndAndForce {
		err = errors.Join(err, b.take("force", &ch.Force))
	}
	if err = cmp.Or(err, audit.CheckWhy(ch.Why), audit.CheckBy(by)); err != nil {
		return ch, err
	}
	ch.By = author(r, by)
	if lasts == "" {
		return ch, nil
	}
	if ch.For, err = time.ParseDuration(lasts); err != nil || ch.For <= 0 {
		return ch, fault.New("for", lasts, "must be a time with a unit, such as 10m; leave it out to keep the change")
	}
	return ch, nil
}

// signed is a change whose body states, beside these members of its own, only what the request may.
func signed(r *http.Request, own map[string]any, more takes) (ch control.Change, err error) {
	b, err := readBody(r)
	if err != nil {
		return ch, err
	}
	for name, into := range own {
		err = errors.Join(err, b.take(name, into))
	}
	if err != nil {
		return ch, err
	}
	if ch, err = b.change(r, more); err != nil {
		return ch, err
	}
	return ch, b.end()
}

// end refuses members that nobody took.
func (b body) end() error {
	var faults fault.List
	for name, raw := range b {
		faults.Refuse(true, shown(json.RawMessage(name)), shown(raw), "is unknown here; leave it out")
	}
	return faults.Err()
}

// values are the rest of the members, as settings of a limit.
func (b body) values() (parameters.Values, error) {
	values := parameters.Values{}
	var faults fault.List
	for name, raw := range b {
		known := isSetting(name)
		faults.Refuse(!known, shown(json.RawMessage(name)), shown(raw), noSetting)
		var text string
		var number json.Number
		var truth bool
		switch {
		case isNull(raw):
			faults.Refuse(known, name, shown(raw), mustBe)
		case json.Unmarshal(raw, &text) == nil:
			values[name] = text
		case json.Unmarshal(raw, &number) == nil:
			values[name] = number.String()
		case json.Unmarshal(raw, &truth) == nil:
			values[name] = strconv.FormatBool(truth)
		default:
			faults.Refuse(known, name, shown(raw), mustBe)
		}
	}
	return values, faults.Err()
}

const (
	noSetting = "is no setting of a limit"
	mustBe    = "must be a number, true or false, or text"
)

func isSetting(name string) bool {
	return slices.ContainsFunc(parameters.All, func(p parameters.Parameter) bool { return p.Name == name })
}

// known refuses values of a query that are no settings of a limit.
func known(values parameters.Values) error {
	var faults fault.List
	for name, text := range values {
		faults.Refuse(!isSetting(name), shown(json.RawMessage(name)), shown(json.RawMessage(text)), noSetting)
	}
	return faults.Err()
}

// tagOf is the entity tag of a revision.
func tagOf(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }

// expected is the revision of If-Match; 0: any.
func expected(r *http.Request) (int64, error) {
	tag := r.Header.Get("If-Match")
	switch tag {
	case "":
		return 0, problem.Error{Status: http.StatusPreconditionRequired, Detail: `name the revision that the change is meant for: If-Match: "7", as the ETag of the limit says, or * for any`}
	case "*":
		return 0, nil
	}
	n, err := strconv.ParseInt(strings.Trim(tag, `"`), 10, 64)
	if err != nil || n < 1 || tagOf(n) != tag {
		return 0, problem.Error{Status: http.StatusPreconditionFailed, Detail: `If-Match must be a revision in quotes, such as "7", or *`}
	}
	return n, nil
}
