package figures

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"dispatcher/sender"
)

// MostText is how many bytes the figures of a node have as JSON, at most. Topics, then keys, then lanes are left out of longer ones.
const MostText = 64 << 10

// Figures are what a node says of itself. Counts are since its start.
type Figures struct {
	Name    string  `json:"name"`    // of the node
	Version string  `json:"version"` // of the program
	UpS     float64 `json:"up_s"`    // since it started

	Ready  bool    `json:"ready"`
	Checks []Check `json:"checks"`         // as /readyz lists them
	Phase  string  `json:"phase"`          // of the first limit's limiter
	Note   string  `json:"note,omitempty"` // why nothing is called although the node is ready

	ProviderDown bool  `json:"provider_down"` // the circuit breaker is open
	Rules        int64 `json:"rules"`         // revision of the rules that the node knows

	Changed int64   `json:"changed_us"`      // of the newest settings of the first limit that the node knows
	Cap     float64 `json:"cap_per_s"`       // of the first limit, in units; 0: it is paused
	Eff     float64 `json:"effective_per_s"` // what the provider's answers leave of it

	CallsPerS   float64            `json:"calls_per_s"`  // of late
	UnitsPerS   float64            `json:"units_per_s"`  // that these calls counted on the first limit
	Calls       map[string]float64 `json:"calls"`        // by result, as dispatcher_sender_calls_total
	Units       float64            `json:"called_units"` // that the calls counted on the first limit
	DeadLetters map[string]float64 `json:"dead_letters"` // by class
	Granted     float64            `json:"granted_units"`
	LateSlots   float64            `json:"late_slots"`
	ScriptCalls float64            `json:"script_calls"`

	Lanes  []Lane  `json:"lanes"`
	Topics []Topic `json:"topics"`
	Limits []Limit `json:"limits"`
	Keys   []Key   `json:"keys"` // those that most jobs wait for, the longest backlog first
	Held   int     `json:"held"` // jobs that a rule of the operators holds
}

// Check is one part of the node's health.
type Check struct {
	Name  string `json:"name"`
	Note  string `json:"note,omitempty"`
	Error string `json:"error,omitempty"` // empty: it is well
}

// Lane is a lane on one node.
type Lane struct {
	Name     string  `json:"name"`
	Waiting  int64   `json:"waiting"`   // records that are not complete, less those in flight and asleep
	InFlight int     `json:"in_flight"` // jobs that were taken for a slot, or that a worker has
	Ready    int     `json:"ready"`     // jobs that wait for a slot alone
	Asleep   int     `json:"asleep"`    // jobs that wait in memory for their time, their next call or another limit
	Delayed  int64   `json:"delayed"`   // records of its retry topics, likewise
	OldestS  float64 `json:"oldest_s"`  // age of the oldest job that waits
	PerS     float64 `json:"per_s"`     // jobs that were settled, of late

	Fetched int `json:"fetched"`       // of those that wait, jobs in memory that wait for their turn
	Units   int `json:"fetched_units"` // that they count, as their headers say; 0: an expression says it

	Expires []Expiring `json:"expires,omitempty"` // of them, those with a not-after
}

// MostExpiring is how many entries all lanes of a node have together in [Lane.Expires], at most.
const MostExpiring = 128

// Expiring are jobs of a lane that a node has fetched, that came close to each other and expire close to each other.
type Expiring struct {
	Ahead int     `json:"ahead"` // jobs of the lane on this node that came before all of them, and wait
	Among int     `json:"among"` // jobs of the lane on this node that came between the first and the last of them, these included
	Jobs  int     `json:"jobs"`  // that expire
	InS   float64 `json:"in_s"`  // until then, about
}

// Topic is a job topic or retry topic on one node.
type Topic struct {
	Name       string `json:"name"`
	Lane       string `json:"lane"`
	Partitions int    `json:"partitions"` // that the node works
	Lag        int64  `json:"lag"`        // last stable offsets less the committed ones
}

// Limit is a limit as one node sees it.
type Limit struct {
	Name    string  `json:"name"`
	Waiting int     `json:"waiting"` // jobs of the node that wait for it
	Binds   float64 `json:"binds"`   // share of the last half minute in which some did

	Paused *Pause `json:"paused,omitempty"` // absent: it is not
}

// Pause is that of a limit.
type Pause struct {
	By    string `json:"by"`
	Until string `json:"until,omitempty"` // absent: until somebody resumes it
}

// MostKeys is how many keys a node names in [Figures.Keys], at most.
const MostKeys = 10

// Key is an ordering key, or a value of a limit's key, that jobs wait for. Nobody is shown the key itself: it may be a phone number.
type Key struct {
	Limit   string `json:"limit,omitempty"` // empty: it is an ordering key
	Hash    string `json:"hash"`            // as `limit get NAME --key` has it
	Jobs    int    `json:"jobs"`            // with an ordering key, that of the job that goes first included, unless that one waits for a limit
	AtLeast bool   `json:"at_least"`        // the node did not look at all of its jobs
}

// callsOf are the calls that the sender did not refuse, those for which no connection could be opened included, and
// those that the provider refused for their rate.
func (f Figures) callsOf() (all, refused float64) {
	for result, n := range f.Calls {
		if result != sender.NotSent.String() {
			all += n
		}
	}
	return all, f.Calls[sender.Throttled.String()]
}

// Fault is the first check that fails; false: none does.
func (f Figures) Fault() (Check, bool) {
	for _, c := range f.Checks {
		if c.Error != "" {
			return c, true
		}
	}
	return Check{}, false
}

// text is the JSON, without some or all topics, keys and lanes where it would be too long.
func (f Figures) text() ([]byte, error) {
	for {
		text, err := json.Marshal(f)
		switch {
		case err != nil || len(text) <= MostText:
			return text, err
		case len(f.Topics) > 0:
			f.Topics = f.Topics[:len(f.Topics)/2]
		case len(f.Keys) > 0:
			f.Keys = nil
		case len(f.Lanes) > 0:
			f.Lanes = f.Lanes[:len(f.Lanes)/2]
		default:
			return nil, fmt.Errorf("the figures of this node have %d bytes, and %d are the most", len(text), MostText)
		}
	}
}

// Node is what a node said, and when.
type Node struct {
	Figures

	ID  string        // unique per start
	Age time.Duration // by Redis's clock

	said time.Time // by Redis's clock
}

// encode makes the value that [decode] reads: "time_us JSON".
func encode(said time.Time, text []byte) []byte {
	return append(strconv.AppendInt(nil, said.UnixMicro(), 10), append([]byte{' '}, text...)...)
}

// decode reads a value of the hash; false: no figures are in it.
func decode(id, value string, now time.Time) (n Node, ok bool) {
	at, text, found := strings.Cut(value, " ")
	us, err := strconv.ParseInt(at, 10, 64)
	if !found || err != nil || len(text) > MostText || json.Unmarshal([]byte(text), &n.Figures) != nil || n.Name == "" {
		return Node{}, false
	}
	n.ID, n.said = id, time.UnixMicro(us)
	n.Age = max(0, now.Sub(n.said))
	return n, true
}
