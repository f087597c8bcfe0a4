package states

// State is where a job is.
type State uint8

// The states of a job.
const (
	Fetched   State = iota // in its partition's buffer
	Waiting                // admitted: behind a job of its key, or in a queue of its partition
	Asleep                 // in memory until a timer ends
	Ready                  // in its lane's queue
	InFlight               // the pacer has taken it, or a worker has it
	Writing                // a record is being written for it; then over, unless it can't be written
	Diverted               // goes to the dead letters or to a retry topic, and to no worker
	TimedOut               // as Diverted, but a worker still has it
	Abandoned              // over, while a worker still has it
	Over                   // for this node: settled, or released with its offset open
	states    = iota
)

// Event is what happens to a job.
type Event uint8

// The events in the life of a job.
const (
	Admit       Event = iota // the offset tracker takes its offset
	Sleep                    // it has to wait for a time
	Wake                     // that time has come
	Enqueue                  // it only waits to be taken
	HandOut                  // it is taken for a worker
	Requeue                  // the worker could not call it
	PutBack                  // there is no slot for it
	BeginRecord              // a record has to be written before it is settled; it does not time out any more
	AbortRecord              // that record can't be written; the worker goes on
	Divert                   // no worker is to see it
	TimeOut                  // it was taken too long ago
	LetGo                    // the worker lets it go: it is done, released, or was timed out
	EndRecord                // the last record that it needs is in Kafka, or given up
	events      = iota
)

// Next is the state that follows an event. It returns false for an event that has no
// effect in a state, such as a worker that lets a job go twice.
func (s State) Next(e Event) (State, bool) {
	switch e {
	case Admit:
		return Waiting, s == Fetched
	case Sleep:
		return Asleep, s == Waiting || s == InFlight || s == Writing || s == Diverted
	case Wake:
		return Waiting, s == Asleep
	case Enqueue:
		return Ready, s == Waiting
	case HandOut:
		return InFlight, s == Ready
	case Requeue:
		return Waiting, s == InFlight || s == Writing
	case PutBack:
		return Ready, s == InFlight || s == Writing
	case BeginRecord:
		return Writing, s == InFlight || s == Writing
	case AbortRecord:
		return InFlight, s == Writing
	case Divert:
		return Diverted, s == Waiting || s == Ready
	case TimeOut:
		return TimedOut, s == InFlight
	case LetGo:
		if s == TimedOut {
			return Diverted, true // that only frees the worker
		}
		return Over, s.Decidable() || s == Abandoned
	case EndRecord:
		if s == TimedOut {
			return Abandoned, true
		}
		return Over, s == Writing || s == Diverted
	}
	return s, false
}

// Decidable tells whether a worker has the job and decides what becomes of it.
func (s State) Decidable() bool { return s == InFlight || s == Writing }

// Late tells whether a worker has the job although it timed out.
func (s State) Late() bool { return s == TimedOut || s == Abandoned }

// Queued tells whether a job in this state waits for its turn.
func (s State) Queued() bool { return s == Fetched || s == Waiting || s == Ready }
