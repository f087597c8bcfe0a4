package job

import "time"

// The values of [Result.Result].
const (
	ResultAccepted  = "accepted"  // the provider took it
	ResultRejected  = "rejected"  // the provider will never take it
	ResultExpired   = "expired"   // its not-after passed before it was sent
	ResultExhausted = "exhausted" // it failed as often as allowed
	ResultUnknown   = "unknown"   // written, without an answer, and not sent again
)

// Result is the outcome of a job: the value, as JSON, of a record on <topic>.results.
// The record's key is the job's key, or its id if it has none. After a crash a job may
// have several results, with the same topic, partition and offset.
type Result struct {
	ID        string `json:"id"`
	Topic     string `json:"topic"` // where the job was first written
	Partition int    `json:"partition"`
	Offset    int64  `json:"offset"`

	// Result is one of the constants above; for a dead letter of another class
	// it is that class. All but accepted have a dead letter, which holds the job.
	Result    string `json:"result"`
	Attempts  int    `json:"attempts"`             // calls that left the process
	Status    int    `json:"status,omitempty"`     // HTTP status of the last call; 0: none
	MessageID string `json:"message_id,omitempty"` // the provider's id of the message
	Error     string `json:"error,omitempty"`      // for people, at most 1 KiB

	EnqueuedAt time.Time `json:"enqueued_at,omitzero"` // the record's timestamp
	SentAt     time.Time `json:"sent_at,omitzero"`     // when the last call was written; none: never
	SettledAt  time.Time `json:"settled_at"`           // when the outcome was known
	Node       string    `json:"node"`
}
