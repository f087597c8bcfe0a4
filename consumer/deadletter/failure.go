package deadletter

// Bounds of texts in headers, in bytes.
const (
	MaxMessageBytes = 1 << 10 // of a failure's message
	MaxCodeBytes    = 256     // of a code, a name or an id
	maxAnswerBytes  = 512
)

// Failure says why a job becomes a dead letter, or is tried again later.
type Failure struct {
	Class   Class
	Code    string // the provider's, or an HTTP status
	Message string // for people; never holds the payload
	Answer  string // beginning of the provider's last answer, at most 512 bytes; only dead letters hold it, no log does
	Calls   int    // calls that left the process, earlier ones included
	// Failures is how many of the calls count against the attempts allowed. Only records of
	// retry topics hold it.
	Failures int
}

// Class is the reason for a dead letter, one of a closed set (header x-error-class).
type Class string

// The classes.
const (
	ClassDecode      Class = "decode"      // the record could not be read
	ClassUnsupported Class = "unsupported" // the job asks for something that is not supported
	ClassPermanent   Class = "permanent"   // the provider rejected it
	ClassExhausted   Class = "exhausted"   // it failed as often as allowed
	ClassExpired     Class = "expired"     // its not-after passed before it was sent
	ClassUnknown     Class = "unknown"     // it was called, got no answer, and must not be called again; see consumer.Options.ParkUnknown
	ClassLimited     Class = "limited"     // the limit had no room, and jobs are not to wait
	ClassJobTimeout  Class = "job_timeout" // in flight for longer than job_timeout
	ClassCancelled   Class = "cancelled"   // a rule of the operators cancelled it
	ClassUnavailable Class = "unavailable" // it failed and is tried again; on retry topics only
)

// Classes returns the classes that a dead letter can have.
func Classes() []Class {
	return []Class{ClassDecode, ClassUnsupported, ClassPermanent, ClassExhausted, ClassExpired, ClassUnknown, ClassLimited, ClassJobTimeout, ClassCancelled}
}
