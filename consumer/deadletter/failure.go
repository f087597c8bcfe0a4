package deadletter

// Bounds of texts in headers, in bytes.
const (
	MaxMessageBytes = 1 << 10 // of a failure's message, as it is written
	MaxCodeBytes    = 256     // of a code, a name or an id
	maxAnswerBytes  = 512
)

// Failure says why a job is dead-lettered, or tried again later. Class is one of the closed set in
// the Class constants; Code is the provider's or an HTTP status; Message is
// for people and never holds the payload.
type Failure struct {
	Class   Class
	Code    string
	Message string
	Answer  string // beginning of the provider's last answer, at most 512 bytes; only dead letters hold it, no log does
	Attempt int    // calls that left the process, those of the past included
	// Failures are those of them that count against the attempts allowed. Only
	// a job that is tried again later carries them on.
	Failures int
}

// Class is the closed set of reasons for a dead letter (header x-error-class).
type Class string

// The classes a dead letter can have.
const (
	ClassDecode      Class = "decode"      // the record could not be read
	ClassUnsupported Class = "unsupported" // asks for something not built yet
	ClassPermanent   Class = "permanent"   // the provider rejected it
	ClassExhausted   Class = "exhausted"   // failed as often as allowed
	ClassExpired     Class = "expired"     // its not-after passed before it was sent
	ClassUnknown     Class = "unknown"     // written, no answer, and not to be called again; see Options.ParkUnknown
	ClassLimited     Class = "limited"     // the limit had no room, and jobs are not to wait
	ClassJobTimeout  Class = "job_timeout" // in hand for longer than job_timeout
	ClassUnavailable Class = "unavailable" // failed, and to be tried again; in retry tiers only
)

// Classes are those that a dead letter can have.
func Classes() []Class {
	return []Class{ClassDecode, ClassUnsupported, ClassPermanent, ClassExhausted, ClassExpired, ClassUnknown, ClassLimited, ClassJobTimeout}
}
