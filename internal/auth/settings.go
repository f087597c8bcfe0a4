package auth

import (
	"path/filepath"
	"regexp"
	"strconv"

	"dispatcher/internal/fault"
)

// Role is what a caller may do.
type Role string

// The roles.
const (
	Viewer   Role = "viewer"   // reads
	Operator Role = "operator" // reads and changes
)

const maxTokens = 64

// Settings is the section auth of the configuration. Without tokens nobody is asked for one.
type Settings struct {
	Tokens []Token `yaml:"tokens"`
}

// Token is one caller. The token itself lies in a file, so that it can be rotated and is never shown.
type Token struct {
	Name string `yaml:"name"` // unique; the history of a limit has it
	Role Role   `yaml:"role"`
	File string `yaml:"file"` // absolute
}

var namePattern = regexp.MustCompile(`^[A-Za-z0-9._@-]{1,64}$`)

// Validate checks the settings as such; [New] reads the files.
func (s Settings) Validate() error {
	var l fault.List
	l.Refuse(len(s.Tokens) > maxTokens, "tokens", fault.Entries(len(s.Tokens)), "must have at most %d", maxTokens)
	names := make(map[string]bool)
	for i, t := range s.Tokens {
		at := "tokens." + strconv.Itoa(i)
		l.Refuse(!namePattern.MatchString(t.Name), at+".name", t.Name, "must be 1 to 64 letters, digits and . _ @ -")
		l.Refuse(names[t.Name], at+".name", t.Name, "is named twice")
		names[t.Name] = true
		l.OneOf(at+".role", string(t.Role), string(Viewer), string(Operator))
		// Not shown: it is likely to be the token itself.
		l.Refuse(!filepath.IsAbs(t.File), at+".file", fault.Hidden, "must be the absolute path of a file that holds the token")
	}
	return l.Err()
}
