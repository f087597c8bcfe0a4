package status

import (
	"time"

	"dispatcher/consumer/internal/offsets"
)

// Place is where a job stands in Kafka.
type Place struct {
	Topic     string
	Partition int
	Offset    int64
}

// WaitsFor says what a job of this node waits for.
type WaitsFor string

// What jobs wait for. A job that is ready or taken waits for something outside the scheduler.
const (
	WaitsForLane     WaitsFor = "lane"       // as many jobs of its lane are ready and in flight as may be
	WaitsForSleepers WaitsFor = "sleepers"   // as many jobs sleep as may, of the node or of its partition
	WaitsForOffsets  WaitsFor = "offsets"    // the lowest open offset of its partition is too far behind
	WaitsForOrder    WaitsFor = "order"      // a job of its key goes first; in partition order, one of its partition
	WaitsForTime     WaitsFor = "not_before" // its not-before, or the delay of its retry topic
	WaitsForRetry    WaitsFor = "retry"      // its next call: the last one failed
	WaitsForProvider WaitsFor = "provider"   // likewise, or the end of the outage
	WaitsForLimit    WaitsFor = "limit"      // a limit after the first
	WaitsForHold     WaitsFor = "hold"       // the end of a rule by which an operator holds it
	WaitsForTurn     WaitsFor = "turn"       // it is ready, and waits for a slot
	WaitsForCall     WaitsFor = "call"       // it was taken: it has a slot or gets one, or is called
	WaitsForRecord   WaitsFor = "record"     // its result, its dead letter, or its record of a retry topic, or its outcome in the dedup store
)

// Stay is where a job is on this node, and what it waits for.
type Stay struct {
	Place

	ID     string
	Lane   string
	For    WaitsFor
	Until  time.Time        // when the wait ends, as far as is known; zero: not known
	Limit  string           // that it waits for
	Ahead  int              // jobs of its lane, in a fair lane of its tenant and those that were put back, that are ready on this node and go before it
	Tenant string           // in a fair lane
	Behind *Stay            // the first job of its key, which it waits for; nil: none
	Calls  offsets.Attempts // so far
	Slot   time.Time        // that it was granted last; zero: none yet
}

// Progress says how far a partition of this node has come.
type Progress struct {
	Settled bool  // the offset is done, is a dead letter or has gone to a retry topic; or it holds no job
	Fetched int64 // all records before this one were fetched
	End     int64 // of the log, as of the last fetch
}
