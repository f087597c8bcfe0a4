package job

// Reason is the closed set of causes for which a record is not a job.
type Reason string

// The reasons [Decode] can give.
const (
	// ReasonDecode: the record breaks the contract; it can never be sent.
	ReasonDecode Reason = "decode"
	// ReasonUnsupported: the record is well formed, but requests something that is not
	// implemented. Sending the job would ignore the request.
	ReasonUnsupported Reason = "unsupported"
)

// Error is why a record is not a job. It never holds a value of the record.
type Error struct {
	Reason Reason
	Field  string // the header's name, "value" or "id"
	Rule   string // that the field breaks
}

// Error names the field and the rule it breaks.
func (e *Error) Error() string { return e.Field + ": " + e.Rule }

func broken(field, rule string) *Error {
	return &Error{Reason: ReasonDecode, Field: field, Rule: rule}
}

func unsupported(field, rule string) *Error {
	return &Error{Reason: ReasonUnsupported, Field: field, Rule: rule}
}
