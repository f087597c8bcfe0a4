package script

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/lua"
	"dispatcher/throttle/limit"
)

// Keys are the keys of a limit. All keys of a namespace lie in one hash slot. The
// limit's own key is also the channel on which nodes are notified of changes.
type Keys struct {
	Limit, History, State, Nodes, Leases, Lateness, Calls, Feedback, Events string

	namespace, prefix, name string
}

// KeysOf are the keys of a limit in a namespace.
func KeysOf(namespace, name string) Keys { return keysUnder(prefixOf(namespace), namespace, name) }

// ShadowKeys are the keys of a limit that is no limit of the namespace: nobody lists it, and no
// call counts on it. It lies where the others lie.
func ShadowKeys(namespace, name string) Keys {
	return keysUnder(prefixOf(namespace)+"check:", namespace, name)
}

func prefixOf(namespace string) string { return "dispatcher:{" + namespace + "}:" }

func keysUnder(prefix, namespace, name string) Keys {
	key := func(kind string) string { return prefix + kind + ":" + name }
	return Keys{
		Limit: key("limit"), History: key("history"), State: key("state"), Nodes: key("nodes"), Leases: key("leases"), Lateness: key("lateness"), Calls: key("calls"),
		Feedback: key("feedback"), Events: key("events"),
		namespace: namespace, prefix: prefix, name: name,
	}
}

// named are the keys of another limit of the namespace.
func (k Keys) named(name string) Keys { return KeysOf(k.namespace, name) }

// Reserved holds the last reservation of a node.
func (k Keys) Reserved(node string) string { return k.prefix + "reserved:" + k.name + ":" + node }

// Scripts runs the scripts of one limit, for one node or operator.
type Scripts struct {
	rdb  redis.Scripter
	Keys Keys
	Node string

	texts
}

// texts are the scripts, which are the same for all limits.
type texts struct {
	Reserving                                         map[string]*redis.Script // by algorithm
	configuring, deleting, Leasing, Counting, heeding *redis.Script
	releasing                                         *redis.Script
}

// joined are the scripts. It takes two milliseconds to join and to hash them.
var joined = sync.OnceValue(func() texts { //nolint:gochecknoglobals // a constant table
	t := texts{
		Reserving:   make(map[string]*redis.Script),
		configuring: redis.NewScript(lua.Configure()), deleting: redis.NewScript(lua.Delete()),
		Leasing: redis.NewScript(lua.Lease()), Counting: redis.NewScript(lua.Lateness()), heeding: redis.NewScript(lua.Feedback()),
		releasing: redis.NewScript(lua.Release()),
	}
	for _, a := range limit.Algorithms() {
		t.Reserving[a.Name] = redis.NewScript(lua.Reserve(a.Name, a.Script, a.Ahead))
	}
	return t
})

// NewScripts is for a limit of a namespace; an operator has no node.
func NewScripts(rdb redis.Scripter, namespace, name, node string) Scripts {
	s := Scripts{rdb: rdb, Keys: KeysOf(namespace, name), Node: node, texts: joined()}
	s.Reserving = maps.Clone(s.Reserving) // the caller's own
	return s
}

// ErrReply says that a script replied something else than it should.
var ErrReply = errors.New("unexpected reply of a script")

// wrongCount is the error of a reply that has more or fewer values than it should.
func wrongCount(got int, want string) error {
	return fmt.Errorf("%w: %d values, want %s", ErrReply, got, want)
}

// numbersOf reads the numbers of a script's reply.
func numbersOf(reply []any) ([]int64, error) {
	n := make([]int64, len(reply))
	for i := range n {
		v, ok := reply[i].(int64)
		if !ok {
			return nil, fmt.Errorf("%w: value %d is %T", ErrReply, i+1, reply[i])
		}
		n[i] = v
	}
	return n, nil
}

// ChangeStatus is configure.lua's reply.
type ChangeStatus int64

// What becomes of a change.
const (
	ChangeDone     ChangeStatus = iota
	ChangeUnknown               // there is no such limit
	ChangeConflict              // another change was faster
)

// Configure replaces the settings, if those expected still are in force. It writes none that no node could read.
func (s Scripts) Configure(ctx context.Context, expected, to limit.Settings) (ChangeStatus, error) {
	packed := to.Pack()
	if _, err := limit.Unpack(packed); err != nil {
		return 0, fmt.Errorf("change settings: %w", err)
	}
	n, err := s.configuring.Run(ctx, s.rdb, []string{s.Keys.Limit, s.Keys.History}, expected.Pack(), packed).Int64()
	if err != nil {
		return 0, fmt.Errorf("change settings: %w", err)
	}
	return ChangeStatus(n), nil
}

// DeleteStatus is what becomes of a limit that is to be deleted.
type DeleteStatus int64

// What delete.lua replies.
const (
	DeleteDone    DeleteStatus = iota
	DeleteUnknown              // there is no such limit
	DeleteInUse                // by nodes
)

// Delete deletes the limit if no node uses it. A node that polled within alive, or
// has a lease, does.
func (s Scripts) Delete(ctx context.Context, alive time.Duration) (status DeleteStatus, nodes int64, err error) {
	k := s.Keys
	n, err := s.deleting.Run(ctx, s.rdb, []string{k.Limit, k.History, k.State, k.Nodes, k.Leases, k.Lateness, k.Calls, k.Feedback, k.Events}, alive.Microseconds()).Int64Slice()
	if err == nil && len(n) != 2 {
		err = wrongCount(len(n), "2")
	}
	if err != nil {
		return 0, 0, err
	}
	return DeleteStatus(n[0]), n[1], nil
}

// Release ends the block of a value of a gate's key, which has this state. It returns when the block would have
// ended, on Redis's clock in µs; 0: there is none.
func (s Scripts) Release(ctx context.Context, state, event, by string) (till int64, err error) {
	k := s.Keys
	return s.releasing.Run(ctx, s.rdb, []string{k.Limit, k.History, state, k.Events}, event, by).Int64()
}

// LeaseState is what a node says of its lease of the reserve when it asks.
type LeaseState int64

// The states of a lease.
const (
	LeaseNone LeaseState = iota
	LeaseHeld
	LeaseLeft // the node gives it up
)

// LeaseReply is lease.lua's reply.
type LeaseReply struct {
	Now, Epoch int64
	Granted    bool
}

// Lease asks for a lease of the reserve once, or gives it up; left is then how long
// the last call under it may last.
func (s Scripts) Lease(ctx context.Context, identity string, length time.Duration, state LeaseState, left time.Duration) (LeaseReply, error) {
	n, err := s.Leasing.Run(ctx, s.rdb, []string{s.Keys.Limit, s.Keys.History, s.Keys.Leases},
		s.Node, identity, length.Microseconds(), int64(state), left.Microseconds()).Int64Slice()
	if err == nil && len(n) != 3 {
		err = wrongCount(len(n), "3")
	}
	if err != nil {
		return LeaseReply{}, fmt.Errorf("ask for a lease of the reserve: %w", err)
	}
	return LeaseReply{Now: n[0], Epoch: n[1], Granted: n[2] == 1}, nil
}

// latenessNumbers are the values of lateness.lua's reply in front of the fields.
const latenessNumbers = 4

// Lateness runs lateness.lua once, and returns the numbers of its reply, and the
// names and values of the fields behind them.
func (s Scripts) Lateness(ctx context.Context, counts, moved string, patience time.Duration, trips string) (numbers []int64, fields []any, err error) {
	reply, err := s.Counting.Run(ctx, s.rdb, []string{s.Keys.Limit, s.Keys.History, s.Keys.Lateness}, counts, moved, patience.Microseconds(), trips).Slice()
	if err == nil && (len(reply) < latenessNumbers || len(reply)%2 != 0) {
		err = wrongCount(len(reply), fmt.Sprintf("%d, and pairs behind them", latenessNumbers))
	}
	if err == nil {
		numbers, err = numbersOf(reply[:latenessNumbers])
	}
	if err != nil {
		return nil, nil, fmt.Errorf("report late slots: %w", err)
	}
	return numbers, reply[latenessNumbers:], nil
}

// Feedback is one call of feedback.lua.
type Feedback struct {
	Number int64  // of the slowdown that the caller knows; 0: none
	Report string // of this node; empty: none
	Next   string // replaces the slowdown, as throttle/limit packs it; "end": none follows; empty: it stays
	Event  string // with Next, for the history
	By     string
}

// Heard is the reply: the slowdown in force, and the reports of all nodes where this one is to decide.
type Heard struct {
	Now      int64
	Slowdown limit.Slowdown
	Reports  []string // of all nodes; none: this node does not decide
}

const heardValues = 2 // in front of the reports

// Feedback runs feedback.lua once.
func (s Scripts) Feedback(ctx context.Context, f Feedback) (h Heard, err error) {
	k := s.Keys
	reply, err := s.heeding.Run(ctx, s.rdb, []string{k.Limit, k.History, k.Feedback, k.Events}, f.Number, s.Node, f.Report, f.Next, f.Event, f.By).Slice()
	if err == nil && len(reply) < heardValues {
		err = wrongCount(len(reply), fmt.Sprintf("%d at least", heardValues))
	}
	if err == nil {
		h, err = decodeHeard(reply)
	}
	if err != nil {
		return Heard{}, fmt.Errorf("report refused calls: %w", err)
	}
	return h, nil
}

func decodeHeard(reply []any) (h Heard, err error) {
	now, err := numbersOf(reply[:1])
	if err != nil {
		return h, err
	}
	texts, err := textsOf(reply[1:])
	if err != nil {
		return h, err
	}
	h.Now = now[0]
	if h.Slowdown, err = limit.UnpackSlowdown(texts[0]); err != nil {
		return h, fmt.Errorf("%w: %w", ErrReply, err)
	}
	h.Reports = texts[1:]
	return h, nil
}

// IsRefusal tells an answer that stays the same however often one asks from a
// Redis that is away, loading or being replaced.
func IsRefusal(err error) bool {
	for _, words := range []string{
		"IDENTITY", "NOPERM", "NOAUTH", "WRONGPASS", "ERR unknown command", "OOM", "MISCONF", "WRONGTYPE", "MODULE", "VERSION",
		"ERR The user executing the script", // NOPERM, as 7.0 says it of a command inside
		"ERR ACL failure in script",         // the same, as later ones and Valkey say it
	} {
		if strings.Contains(err.Error(), words) {
			return true
		}
	}
	return errors.Is(err, ErrReply)
}

// TimedOut reports whether an error says that an answer did not come in time.
func TimedOut(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}
