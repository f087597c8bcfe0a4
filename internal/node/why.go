package node

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"dispatcher/configs"
	"dispatcher/consumer"
	"dispatcher/internal/expression"
	"dispatcher/internal/why"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/phase"
)

// What holds up all jobs that are ready, beside what consumer.WaitsFor lists.
const (
	waitsForSlot     = "slot"     // its turn under the first limit
	waitsForResume   = "resume"   // an operator has paused a limit that it counts on
	waitsForBlock    = "block"    // the provider refuses calls, and asked for a rest
	waitsForCooldown = "cooldown" // slots that may be out have to pass first
	waitsForChange   = "change"   // the settings were changed, and units of those before have to pass first
	waitsForRedis    = "redis"    // Redis can't be asked
)

// awaited says for people what a job waits for.
var awaited = map[string]string{ //nolint:gochecknoglobals // a constant table
	string(consumer.WaitsForLane):     "room in its lane",
	string(consumer.WaitsForSleepers): "room in memory",
	string(consumer.WaitsForOffsets):  "an unsettled job far before it",
	string(consumer.WaitsForOrder):    "an earlier job of its key or partition",
	string(consumer.WaitsForTime):     "its time",
	string(consumer.WaitsForRetry):    "its next call",
	string(consumer.WaitsForProvider): "the provider",
	string(consumer.WaitsForLimit):    "a limit",
	string(consumer.WaitsForHold):     "the end of a rule",
	string(consumer.WaitsForCall):     "its call",
	string(consumer.WaitsForRecord):   "a record in Kafka",
	waitsForSlot:                      "a slot",
	waitsForResume:                    "an operator",
	waitsForBlock:                     "the provider's block",
	waitsForCooldown:                  "a cooldown",
	waitsForChange:                    "units granted under the earlier settings",
	waitsForRedis:                     "Redis",
}

// Why says what jobs or a limit wait for on this node.
func (n *Node) Why(q why.Question) why.Answer {
	a := why.Answer{Node: Name(n.cfg)}
	switch {
	case q.Limit != "":
		a.Limit = n.whyLimit(q.Limit)
		return a
	case q.When != "":
		a.Matching = n.matching(q.When)
		return a
	}
	at, isPlace := placeOf(q.Job)
	found := n.consumer.Find(func(d *consumer.Delivery) bool {
		return d.Job.ID == q.Job || isPlace && d.Job.Offset == at.Offset && d.Job.Partition == at.Partition && d.Job.Topic == at.Topic
	}, why.MostJobs)
	for _, one := range found {
		a.Jobs = append(a.Jobs, n.whyJob(one, time.Now()))
	}
	if !isPlace {
		return a
	}
	held := slices.ContainsFunc(found, func(one consumer.Stay) bool { return one.Place == at })
	if r, ok := n.consumer.ProgressOf(at); ok {
		a.Progress = &why.Progress{Settled: r.Settled, Fetched: r.Fetched, End: r.End, Text: whereabouts(at.Offset, r, held)}
	}
	return a
}

// whereabouts says for people where the record at an offset is.
func whereabouts(offset int64, p consumer.Progress, held bool) string {
	switch {
	case held:
		return "is a job that waits or is called"
	case p.Settled:
		return "is settled: it was called, went to a retry topic, is a dead letter, or its record holds no job"
	case offset >= p.End:
		return fmt.Sprintf("is not in the log: the partition ends at offset %d", p.End)
	case offset == p.Fetched:
		return "is not fetched yet: it is the next"
	case offset == p.Fetched+1:
		return "is not fetched yet, nor is the record before it"
	case offset > p.Fetched:
		return fmt.Sprintf("is not fetched yet, nor are %d records before it", offset-p.Fetched)
	default:
		return "is just being settled or released"
	}
}

// matching counts the jobs of this node for which an expression is true. It is run without the consumer's lock: only the jobs
// are collected under it.
func (n *Node) matching(source string) *why.Matching {
	when, err := expression.CompileCondition(source)
	if err != nil { // who asks has compiled it
		return nil
	}
	var all []*consumer.Delivery
	n.consumer.Find(func(d *consumer.Delivery) bool { all = append(all, d); return false }, 1)
	m := &why.Matching{Held: len(all)}
	for _, d := range all {
		matches, err := when.Holds(expression.JobOf(&d.Job, d.Lane(), d.JobTopic()))
		switch {
		case err != nil:
			m.Failed++
		case matches:
			m.Jobs++
		}
	}
	return m
}

// placeOf reads topic/partition/offset; false: it is something else.
func placeOf(text string) (at consumer.Place, ok bool) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 || parts[0] == "" {
		return at, false
	}
	partition, err := strconv.ParseUint(parts[1], 10, 31)
	if err != nil {
		return at, false
	}
	offset, err := strconv.ParseUint(parts[2], 10, 63)
	return consumer.Place{Topic: parts[0], Partition: int(partition), Offset: int64(offset)}, err == nil
}

// whyLimit is nil where the node does not know the limit.
func (n *Node) whyLimit(name string) *why.Limit {
	i := n.limitNumber(name)
	if i < 0 {
		return nil
	}
	l := &why.Limit{Binds: n.limiter.Binds(i)}
	if i > 0 {
		l.Waiting = n.consumer.Deferred()[name]
		if set := n.limiter.Settings(i); set.Paused {
			l.Why = phase.PauseNote(set)
		}
		return l
	}
	for _, lane := range n.consumer.Status().Lanes {
		l.Waiting += lane.Ready
	}
	if waitsFor, text, _ := n.whyNobody(); waitsFor != waitsForSlot {
		l.Why = text
	}
	return l
}

// limitNumber is the number of the limit of that name, as the limiter counts them; -1: there is none.
func (n *Node) limitNumber(name string) int {
	return slices.IndexFunc(n.cfg.Limits, func(l configs.Limit) bool { return l.Name == name })
}

func (n *Node) whyJob(s consumer.Stay, now time.Time) why.Job {
	one := why.Job{
		ID: s.ID, Topic: s.Topic, Partition: s.Partition, Offset: s.Offset, Lane: s.Lane,
		WaitsFor: string(s.For), Until: timeOf(s.Until), Limit: s.Limit, Ahead: s.Ahead, Calls: s.Calls.Calls,
	}
	until := ""
	if !s.Until.IsZero() {
		until = " until " + stamp(s.Until)
	}
	switch s.For {
	case consumer.WaitsForLane:
		_, text, _ := n.whyNobody()
		one.Why = fmt.Sprintf("as many jobs of lane %s are ready and in flight on this node as may be (kafka.workers): %s", s.Lane, text)
	case consumer.WaitsForSleepers:
		one.Why = "as many jobs sleep in memory, of this node or of its partition, as may (kafka.max_asleep, kafka.max_asleep_bytes)"
	case consumer.WaitsForOffsets:
		one.Why = "a job far before it in its partition is not settled, and no later offset can be kept track of"
	case consumer.WaitsForOrder:
		behind := n.whyJob(*s.Behind, now)
		one.Behind = &behind
		one.Why = fmt.Sprintf("kafka.order has job %s at offset %d go first: %s", behind.ID, behind.Offset, behind.Why)
	case consumer.WaitsForTime:
		one.Why = "it is not due" + until
	case consumer.WaitsForRetry:
		one.Why = lastCall(s.Calls.Calls) + " failed, and the next one waits" + until
	case consumer.WaitsForProvider:
		one.Why = fmt.Sprintf("%s failed, and the next one waits%s, or until the provider answers again (%s)", lastCall(s.Calls.Calls), until, n.provider.State())
	case consumer.WaitsForLimit:
		one.Why = fmt.Sprintf("the limit %s does not let it pass%s", s.Limit, until)
		if i := n.limitNumber(s.Limit); i >= 0 {
			whyPaused(&one, n.limiter.Settings(i))
		}
	case consumer.WaitsForHold:
		one.Why = fmt.Sprintf("the %s holds it%s; dispatcher rules shows it, and ends it", s.Limit, until)
	case consumer.WaitsForTurn:
		n.whyTurn(&one, s.Tenant != "")
	case consumer.WaitsForCall:
		one.Why = callText(s.Slot, now, n.cfg.Dedup.Enabled)
	case consumer.WaitsForRecord:
		one.Why = "its result, its dead letter or its record of a retry topic is being written to Kafka, or its outcome to the dedup store"
		if fault := n.consumer.Status().Fault; fault != nil {
			one.Why += ": " + fault.Error()
		}
	}
	one.Text = awaited[one.WaitsFor]
	return one
}

// whyPaused says that a job waits for a limit with these settings to be resumed, where it is paused. The time of the job's wait
// moves on then, and says nothing.
func whyPaused(one *why.Job, s limit.Settings) {
	if s.Paused {
		one.WaitsFor, one.Until = waitsForResume, timeOf(s.PauseEnds())
		one.Why = fmt.Sprintf("the limit %s is %s", one.Limit, phase.PauseNote(s))
	}
}

// whyTurn says what a job that is ready waits for.
func (n *Node) whyTurn(one *why.Job, fair bool) {
	var text string
	var until time.Time
	one.WaitsFor, text, until = n.whyNobody()
	one.Until, one.Why = timeOf(until), text
	if one.WaitsFor == waitsForSlot {
		one.Limit = n.cfg.Limits[0].Name
		whose := "of lane " + one.Lane
		if fair {
			whose = "of its tenant, which takes turns with the others of lane " + one.Lane + ","
		}
		one.Why = fmt.Sprintf("%d jobs %s go before it on this node; %s", one.Ahead, whose, text)
	}
}

// whyNobody says what all jobs wait for that are ready.
func (n *Node) whyNobody() (waitsFor, text string, until time.Time) {
	s := n.limiter.State()
	note := s.Note()
	switch s.Phase {
	case phase.Paused:
		return waitsForResume, note, s.Settings.PauseEnds()
	case phase.Blocked:
		return waitsForBlock, note, s.Until
	case phase.Cooldown:
		return waitsForCooldown, note, s.Until
	case phase.Changing:
		return waitsForChange, note, s.Until
	case phase.Starting, phase.Away, phase.TooSlow, phase.Refused:
		return waitsForRedis, s.Ready().Error(), until
	case phase.Reserve:
		note = s.Ready().Error()
	case phase.Running:
	}
	if n.provider.Down() {
		return string(consumer.WaitsForProvider), "the provider is " + n.provider.State(), until
	}
	text = fmt.Sprintf("the limit %s allows %d in %s", n.cfg.Limits[0].Name, s.Settings.Cap, s.Settings.Window)
	if note != "" {
		text += ", " + note
	}
	return waitsForSlot, text, until
}

func lastCall(calls int) string {
	if calls <= 1 {
		return "its call"
	}
	return fmt.Sprintf("the last of its %d calls", calls)
}

// callText says what a job waits for that the pacer or a worker has. claims: the job is claimed in the dedup store before its call.
func callText(slot, now time.Time, claims bool) string {
	switch {
	case slot.IsZero():
		return "it is being given a slot"
	case slot.After(now):
		return "it has a slot at " + stamp(slot)
	}
	text := "it had a slot at " + stamp(slot) + ": it is called, or gets another slot"
	if claims {
		text += ", or waits until another delivery of it has let its claim go"
	}
	return text
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// timeOf is nil for the zero time.
func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
