package node

import (
	"dispatcher/consumer"
	"dispatcher/sender"
)

// outcome is what is said on the results' topic about a job after its last call.
func (t *try) outcome(last sender.Result) consumer.Outcome {
	o := consumer.Outcome{Status: last.Status, MessageID: last.MessageID, Attempts: t.calls, SentAt: t.sentAt}
	if last.Err != nil {
		o.Error = last.Err.Error()
	}
	return o
}
