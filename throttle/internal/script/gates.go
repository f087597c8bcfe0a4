package script

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/quota"
)

// This file and reserve/gates.lua are the only places that know how gates stand in the
// arguments and the reply of a reservation.

// State is what Redis keeps for one value of a gate's key.
type State struct {
	Gate int // index of [Gates].Known
	Hash limit.Hash
}

// Gates are what a call says of the limits after the first.
type Gates struct {
	Names       []string
	Known       []limit.Settings // the newest ones that the node knows
	Quotas      []Quota          // what it knows of each gate as a quota; the zero Quota where it is none
	States      []State          // that jobs or corrections name, each once
	Jobs        [][]Pass         // of each job, in the order of the costs
	Corrections []StateCorrection
}

// Quota is what a node says of a quota.
type Quota struct {
	Bounds []int64 // of a calendar: when the windows around now begin and end, on Redis's clock, in µs
	Whole  bool    // all jobs count together, so the node remembers the state
	State  string  // the newest one that it has seen
}

// memory is what the node remembers; empty where it remembers nothing.
func (q Quota) memory() string {
	if !q.Whole {
		return ""
	}
	return "- " + q.State
}

// Pass is what a job counts on a gate.
type Pass struct {
	State int // index of [Gates].States
	Units int64
}

// StateCorrection is the correction of one state, or a block: no job passes before Slot.
type StateCorrection struct {
	Correction

	State int // index of [Gates].States
	Block bool
}

// text is the correction as reserve/gates.lua reads it.
func (c StateCorrection) text() string {
	what := "block"
	if !c.Block {
		what = strconv.FormatInt(c.Units, 10)
	}
	return fmt.Sprintf("%d:%d:%s ", c.State+1, c.Slot, what)
}

// Choice says which jobs got slots, where these may go to any of them.
type Choice struct {
	Granted []Grant // in the order of the slots
	Refused []Refusal
	Gates   []limit.Settings // in force
	Quotas  []string         // the state of each quota without a key, and the [Opening] of one with a key that waits after a loss; empty: none
}

// Grant is a job that got a slot.
type Grant struct {
	Job int
	At  int64 // on Redis's clock, in µs
}

// Refusal is a job that a gate does not allow soon.
type Refusal struct {
	Job, Gate int
	At        int64 // when to ask again, on Redis's clock, in µs
}

// Gate holds the last grant of one value of a gate's key.
func (k Keys) Gate(name string, epoch int64, of limit.Hash) string {
	return k.prefix + "gate:" + name + ":" + strconv.FormatInt(epoch, 10) + ":" + of.String()
}

// Quota holds the counts of one value of a quota's key. They outlive epochs. Those of another
// kind of window mean nothing to it.
func (k Keys) Quota(name string, kind quota.Quota, of limit.Hash) string {
	window := kind.Calendar
	if window == "" {
		window = kind.Rolling.String()
	}
	return k.prefix + "quota:" + name + ":" + window + ":" + of.String()
}

// GateState is what Redis holds of one value of a gate's key: see reserve/gates.lua. Times are on its
// clock, in µs.
type GateState struct {
	Slot, Units, MaxCost int64 // of the last grant
	Until                int64 // the end of a block; 0: there is none
}

var errState = errors.New("a state that can't be read")

// ReadGateState reads one.
func ReadGateState(text string) (s GateState, err error) {
	words := strings.Fields(text)
	var n [4]int64
	if len(words) < 3 || len(words) > len(n) {
		return s, fmt.Errorf("%w: %.40q", errState, text)
	}
	for i, w := range words {
		if n[i], err = strconv.ParseInt(w, 10, 64); err != nil {
			return s, fmt.Errorf("%w: %.40q", errState, text)
		}
	}
	return GateState{Slot: n[0], Units: n[1], MaxCost: n[2], Until: n[3]}, nil
}

// Opening is from when on a gate grants units: see reserve/gates.lua. Times are on Redis's clock, in µs.
type Opening struct {
	From int64
	Lost int64 // a quota waits since Redis lost its counts; 0: it does not
}

// ReadOpening reads one.
func ReadOpening(text string) (o Opening, err error) {
	from, lost, _ := strings.Cut(text, " ")
	if o.From, err = strconv.ParseInt(from, 10, 64); err == nil {
		o.Lost, err = strconv.ParseInt(lost, 10, 64)
	}
	if err != nil {
		return Opening{}, fmt.Errorf("%w: %.40q", errState, text)
	}
	return o, nil
}

// Whole is the value of a gate without a key.
func Whole() limit.Hash { return limit.HashOf("") }

func (g Gates) keys(of Keys, epoch int64) []string {
	keys := make([]string, 0, 4*len(g.Known)+len(g.States))
	for i, name := range g.Names {
		gate := of.named(name)
		keys = append(keys, gate.Limit, gate.History, gate.Nodes, of.Quota(name, g.Known[i].Quota, Whole()))
	}
	for _, s := range g.States {
		if name, known := g.Names[s.Gate], g.Known[s.Gate]; known.IsQuota() {
			keys = append(keys, of.Quota(name, known.Quota, s.Hash))
		} else {
			keys = append(keys, of.Gate(name, epoch, s.Hash))
		}
	}
	return keys
}

func (g Gates) arguments() []any {
	args := make([]any, 0, 4+4*len(g.Known))
	args = append(args, len(g.Known))
	if len(g.Known) == 0 {
		return args
	}
	for i, known := range g.Known {
		quota := g.quota(i)
		var bounds []byte
		for _, at := range quota.Bounds {
			bounds = append(strconv.AppendInt(bounds, at, 10), ' ')
		}
		args = append(args, known.Pack(), g.Names[i], string(bounds), quota.memory())
	}
	var gates, jobs, corrections []byte
	for _, s := range g.States {
		gates = append(strconv.AppendInt(gates, int64(s.Gate+1), 10), ' ')
	}
	for _, passes := range g.Jobs {
		jobs = appendJob(jobs, passes)
	}
	for _, c := range g.Corrections {
		corrections = append(corrections, c.text()...)
	}
	return append(args, string(gates), string(jobs), string(corrections))
}

func (g Gates) quota(i int) Quota {
	if i >= len(g.Quotas) {
		return Quota{}
	}
	return g.Quotas[i]
}

// appendJob appends a job's states, numbered from 1, and what it counts there.
func appendJob(text []byte, passes []Pass) []byte {
	for i, p := range passes {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, int64(p.State+1), 10)
		text = strconv.AppendInt(append(text, ':'), p.Units, 10)
	}
	if len(passes) == 0 {
		text = append(text, '-')
	}
	return append(text, ' ')
}

// decodeChoice reads the texts of a reply behind the settings of the first limit.
func (a Ask) decodeChoice(now int64, texts []string) (*Choice, error) {
	r, jobs := &Choice{}, int64(len(a.Costs))
	wrong := func(text string) error { return fmt.Errorf("%w: %.40q of the jobs", ErrReply, text) }
	for word := range strings.FieldsSeq(texts[0]) {
		var job, after int64
		if !scan(word, &job, &after) || job < 1 || job > jobs {
			return nil, wrong(word)
		}
		r.Granted = append(r.Granted, Grant{Job: int(job - 1), At: now + after})
	}
	for word := range strings.FieldsSeq(texts[1]) {
		var job, gate, at int64
		if !scan(word, &job, &gate, &at) || job < 1 || job > jobs || gate < 1 || gate > int64(len(a.Gates.Known)) {
			return nil, wrong(word)
		}
		r.Refused = append(r.Refused, Refusal{Job: int(job - 1), Gate: int(gate - 1), At: at})
	}
	for i, known := range a.Gates.Known {
		var err error
		if text := texts[2+i]; text != "" {
			if known, err = limit.Unpack(text); err != nil {
				return nil, fmt.Errorf("%w: limit %s: %w", ErrReply, a.Gates.Names[i], err)
			}
		}
		r.Gates = append(r.Gates, known)
	}
	r.Quotas = texts[2+len(a.Gates.Known):]
	return r, nil
}

// scan reads numbers with colons between them, and reports whether there are as many as wanted.
func scan(word string, wanted ...*int64) bool {
	for i, n := range wanted {
		text, rest, more := strings.Cut(word, ":")
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil || more != (i < len(wanted)-1) {
			return false
		}
		*n, word = v, rest
	}
	return true
}

// textsOf reads the texts of a script's reply.
func textsOf(reply []any) ([]string, error) {
	texts := make([]string, len(reply))
	for i := range texts {
		text, ok := reply[i].(string)
		if !ok {
			return nil, fmt.Errorf("%w: a value is %T, want a text", ErrReply, reply[i])
		}
		texts[i] = text
	}
	return texts, nil
}
