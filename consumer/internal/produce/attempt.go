package produce

import (
	"context"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// lostAnswers counts the produce requests whose answer never came. A broker may have got them.
type lostAnswers struct{ atomic.Uint64 }

// OnBrokerE2E implements [kgo.HookBrokerE2E].
func (l *lostAnswers) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e kgo.BrokerE2E) {
	if key == int16(kmsg.Produce) && e.Err() != nil {
		l.Add(1)
	}
}

// attempt is the context of a record while kgo has it. It ends with the context of its request, but no longer once an answer was
// lost.
//
// kgo gives up a record whose context has ended if it takes the record for not written. It does so once a broker refuses the
// record, and forgets that the answer to an earlier request was lost; that request may have written the record. A broker that hung
// for long does both: its answer comes too late, and then it does not lead the partition for a moment. kgo v1.22.3 still forgets,
// see canFailFromLoadErrs in its sink.go.
//
// kgo does not say which records a request has. So an answer counts for all records that kgo had when it was lost.
type attempt struct {
	context.Context //nolint:containedctx // it is one

	request *Request
	lost    *lostAnswers
	before  uint64 // answers that were lost when kgo got the record
}

func (l *lostAnswers) attempt(r *Request) *attempt {
	return &attempt{Context: r.Context, request: r, lost: l, before: l.Load()}
}

func (a *attempt) mayBeWritten() bool { return a.lost.Load() != a.before }

// Done is nil once the record may be written. kgo asks for it each time that it could give the record up, so it may change.
func (a *attempt) Done() <-chan struct{} {
	if a.mayBeWritten() {
		return nil
	}
	return a.Context.Done()
}

// Err is nil once the record may be written.
func (a *attempt) Err() error {
	if a.mayBeWritten() {
		return nil
	}
	return a.Context.Err()
}
