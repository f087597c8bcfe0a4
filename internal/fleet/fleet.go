// Package fleet refuses a node that names another limit than the other nodes of its
// Kafka group. Both limits together would pass the provider's cap. The error names both.
//
// Each node registers in Redis every few seconds, in each of its groups: there is one
// for each topic. The first node of a group declares the limit. Another limit can be
// declared when no node of the group registered for ten seconds: to change the limit's
// name, stop the fleet. A Redis that was away or lost its data has no declaration, and a
// node with another limit may be back first. The nodes that registered earlier take the
// declaration over within a minute. The later node ends at its next registration: until
// then, three seconds, it works beside the others.
//
// The package warns of nodes in another namespace of the same Redis, which may be for
// another provider, of two nodes with one name, and of nodes that keep other limits after
// the first. Nodes may differ in these while the fleet is upgraded.
//
// It does not read or change the limit itself; throttle does.
//
// While Redis does not answer a node is not registered, and gets no slots either.
// [Membership.Run] runs on its caller's goroutine and starts none.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"dispatcher/lua"
)

const (
	registerEvery = 3 * time.Second
	retryEvery    = 300 * time.Millisecond // while Redis does not answer
	goneAfter     = 10 * time.Second
	youngFor      = time.Minute      // for so long an older node takes a declaration over
	lookEvery     = 8 * time.Second  // between two looks for other namespaces, which follow a registration: so it is 9 s
	unseenAfter   = 20 * time.Second // a namespace where no node looked for so long has no nodes of the group
	callTimeout   = time.Second
)

// Options are the node's registration.
type Options struct {
	Redis     redis.UniversalClient
	Namespace string   // of the limit
	Groups    []string // of Kafka
	Node      string   // the node's name
	Limit     string   // its name
	Scope     string   // the limit's
	Limits    []string // names of all limits, the first one's too

	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
}

// Membership is one node's place in its fleet. Make it with [New]; it can be run
// once.
type Membership struct {
	opts     Options
	id       string // of the node, unique per start
	script   *redis.Script
	failing  bool      // the last call failed, and that was logged
	warned   []string  // namespaces
	noRights bool      // logged that other namespaces can't be seen
	looked   time.Time // last time, for other namespaces
	first    int64     // when the node registered first, by Redis's clock; 0: not yet
	namesake bool      // warned that another node has the same name
	limits   string    // names of all limits, as nodes compare them
	differ   string    // how the limits of other nodes differ, as it was logged last; empty: they don't
	differs  prometheus.Gauge
}

// New makes a membership. It asks nothing yet.
func New(o Options) *Membership {
	m := &Membership{
		opts: o, id: fmt.Sprintf("%s-%016x", o.Node, rand.Uint64()), script: redis.NewScript(lua.Register()),
		limits: strings.Join(slices.Sorted(slices.Values(o.Limits)), ","),
		differs: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "dispatcher_fleet_limits_differ", Help: "1 while another node of the group keeps limits of other names than this node.",
		}),
	}
	if o.Registerer != nil {
		o.Registerer.MustRegister(m.differs)
	}
	return m
}

// OtherLimitError says that other nodes of the group work under another limit.
type OtherLimitError struct {
	Group        string
	Mine, Theirs string   // limit and scope
	Nodes        []string // that are there, ten at most
}

func (e *OtherLimitError) Error() string {
	return fmt.Sprintf("this node works under limit %s, and the nodes of the group %s under limit %s (%s): together they would pass the cap; "+
		"correct limits.0, or stop those nodes first", e.Mine, e.Group, e.Theirs, strings.Join(e.Nodes, ", "))
}

// Run registers the node until ctx ends, and returns nil then. It returns an
// [OtherLimitError] where other nodes of the group work under another limit. While
// Redis does not answer, it keeps trying.
func (m *Membership) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			m.leave(ctx)
			return nil
		case <-timer.C:
		}
		seen, err := m.register(ctx, false)
		wait := registerEvery
		switch {
		case errors.As(err, new(*OtherLimitError)):
			return err
		case err != nil:
			m.failed(err)
			wait = retryEvery
		default:
			m.failing = false
			m.first = cmp.Or(m.first, seen.now)
			m.noteNamesakes(seen.now, seen.namesakes)
			m.noteLimits(seen.others)
			m.lookAround(ctx, time.Now(), seen.now)
		}
		timer.Reset(wait)
	}
}

// failed logs once that the node is not registered.
func (m *Membership) failed(err error) {
	if m.failing {
		return
	}
	m.failing = true
	m.opts.Logger.Warn("the node could not register with its group, trying again; meanwhile a node under another limit would go unseen", "error", err)
}

func (m *Membership) declared() string {
	return fmt.Sprintf("%q (scope %s)", m.opts.Limit, m.opts.Scope)
}

// noteNamesakes warns once of another node with the same name. The registration of a
// killed node lasts for some seconds, and is not another node when it starts again.
func (m *Membership) noteNamesakes(now, namesakes int64) {
	if m.namesake || namesakes == 0 || now-m.first <= goneAfter.Microseconds() {
		return
	}
	m.namesake = true
	m.opts.Logger.Warn("another node of this group has the same name; limit get, metrics and logs can't tell them apart",
		"name", m.opts.Node, "others", namesakes, "remedy", "give each node a name of its own with the setting node")
}

// noteLimits warns once of each change in how the limits of other nodes differ. A limit that a
// node does not know is not kept for the jobs of that node.
func (m *Membership) noteLimits(others []otherLimits) {
	differ := difference(strings.Split(m.limits, ","), others)
	if differ == m.differ {
		return
	}
	m.differ = differ
	if differ == "" {
		m.differs.Set(0)
		m.opts.Logger.Info("limits are the same on all nodes again")
		return
	}
	m.differs.Set(1)
	m.opts.Logger.Warn("limits differ between nodes", "difference", differ, "remedy", "upgrade the nodes, or give all of them the same limits")
}

// difference says which nodes do not keep which limits. The others are in the order of their names.
func difference(mine []string, others []otherLimits) string {
	lacking, more := map[string][]string{}, map[string][]string{} // nodes, by the name of a limit
	note := func(nodes map[string][]string, has, lacks []string, node string) {
		for _, name := range has {
			if !slices.Contains(lacks, name) && !slices.Contains(nodes[name], node) {
				nodes[name] = append(nodes[name], node)
			}
		}
	}
	for _, o := range others {
		note(lacking, mine, o.limits, o.node)
		note(more, o.limits, mine, o.node)
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(lacking)) {
		format := "node %s does not keep the limit %s"
		if len(lacking[name]) > 1 {
			format = "nodes %s do not keep the limit %s"
		}
		all = append(all, fmt.Sprintf(format, strings.Join(lacking[name], ", "), name))
	}
	for _, name := range slices.Sorted(maps.Keys(more)) {
		all = append(all, fmt.Sprintf("this node does not keep the limit %s of node %s", name, strings.Join(more[name], ", ")))
	}
	return strings.Join(all, "; ")
}

// seen is what a node learned when it registered.
type seen struct {
	now       int64 // Redis's clock
	namesakes int64 // other nodes of the same name
	others    []otherLimits
}

// otherLimits are those of a node that keeps other limits than this one.
type otherLimits struct {
	node   string
	limits []string
}

// register returns an [OtherLimitError] where the node is refused.
func (m *Membership) register(ctx context.Context, leave bool) (s seen, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	keys := make([]string, len(m.opts.Groups))
	for i, group := range m.opts.Groups {
		keys[i] = fmt.Sprintf("dispatcher:{%s}:group:%s", m.opts.Namespace, group)
	}
	reply, err := m.script.Run(ctx, m.opts.Redis, keys, m.id, m.declared(), goneAfter.Microseconds(), leave, m.limits, m.first, youngFor.Microseconds()).Slice()
	if err != nil {
		return s, err
	}
	if len(reply) < 3 {
		return s, fmt.Errorf("register: a reply of %d parts", len(reply))
	}
	s.now, _ = reply[0].(int64)
	which, _ := reply[1].(int64)
	if which < 1 || int(which) > len(keys) {
		s.namesakes, _ = reply[2].(int64)
		for _, part := range reply[3:] {
			text, _ := part.(string)
			if cut := strings.LastIndexByte(text, ' '); cut > 0 { // a node's name may hold spaces
				s.others = append(s.others, otherLimits{nameOf(text[:cut]), strings.Split(text[cut+1:], ",")})
			}
		}
		return s, nil
	}
	theirs, _ := reply[2].(string)
	other := &OtherLimitError{Group: m.opts.Groups[which-1], Mine: m.declared(), Theirs: theirs}
	for _, node := range reply[3:] {
		id, _ := node.(string)
		other.Nodes = append(other.Nodes, nameOf(id))
	}
	slices.Sort(other.Nodes)
	return s, other
}

// nameOf removes the suffix that New adds to the name.
func nameOf(id string) string {
	if cut := len(id) - len("-0123456789abcdef"); cut > 0 {
		return id[:cut]
	}
	return id
}

func (m *Membership) leave(ctx context.Context) {
	if _, err := m.register(context.WithoutCancel(ctx), true); err != nil {
		m.opts.Logger.Debug("the node could not remove its registration, which ends after some seconds", "error", err)
	}
}

// lookAround looks for other namespaces in which a group works, and warns once of each. Each look wakes Redis, so it is
// rarer than registrations. now and redisNow are the same moment. The keys lie outside the namespace, where the account
// may have no rights.
func (m *Membership) lookAround(ctx context.Context, now time.Time, redisNow int64) {
	if now.Sub(m.looked) < lookEvery {
		return
	}
	m.looked = now
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	all := make([]*redis.MapStringStringCmd, len(m.opts.Groups))
	_, err := m.opts.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, group := range m.opts.Groups {
			key := "dispatcher:groups:" + group
			p.HSet(ctx, key, m.opts.Namespace, redisNow)
			p.PExpire(ctx, key, unseenAfter)
			all[i] = p.HGetAll(ctx, key)
		}
		return nil
	})
	if err != nil {
		if !m.noRights {
			m.noRights = true
			m.opts.Logger.Debug("the group's other namespaces can't be seen; that needs rights on dispatcher:groups:*", "error", err)
		}
		return
	}
	for i, group := range m.opts.Groups {
		for namespace, at := range all[i].Val() {
			if seen, err := strconv.ParseInt(at, 10, 64); err == nil && seen+unseenAfter.Microseconds() >= redisNow {
				m.warn(group, namespace)
			}
		}
	}
}

func (m *Membership) warn(group, namespace string) {
	if namespace == m.opts.Namespace || slices.Contains(m.warned, namespace) {
		return
	}
	m.warned = append(m.warned, namespace)
	m.opts.Logger.Warn("nodes of this group work in another namespace of this redis, and so under a limit of their own",
		"group", group, "namespace", m.opts.Namespace, "other_namespace", namespace)
}
