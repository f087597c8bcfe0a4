package expression

import (
	"errors"
	"fmt"
	"strings"

	"github.com/expr-lang/expr/file"

	"dispatcher/internal/clip"
)

// Error is an expression that does not compile, or that fails on a job.
type Error struct {
	Expression string // the source
	Reason     string // where it fails, why, and what to do; one line
}

const mostShown = 80 // bytes of an expression in an error

func (e *Error) Error() string {
	return "expression " + clip.Quoted(e.Expression, mostShown) + ": " + e.Reason
}

// place says where in the source something is: "at column 5: ".
func place(source string, at file.Location) string {
	e := (&file.Error{Location: at}).Bind(file.NewSource(source))
	if e.Line > 1 {
		return fmt.Sprintf("at line %d, column %d: ", e.Line, e.Column+1)
	}
	return fmt.Sprintf("at column %d: ", e.Column+1)
}

const mostMessage = 200 // bytes of a message of the compiler

// refusal is the reason why a source does not compile.
func refusal(source string, err error) string {
	found, ok := errors.AsType[*file.Error](err)
	if !ok {
		message := strings.Join(strings.Fields(err.Error()), " ")
		if strings.Contains(message, "maximum allowed nodes") {
			return fmt.Sprintf("has more than %d parts; shorten it", maxNodes)
		}
		return clip.Shown(message, mostMessage) + "; correct it"
	}
	message := strings.Join(strings.Fields(found.Message), " ")
	remedy := "; correct it there"
	switch {
	case strings.Contains(message, "maximum allowed nodes"):
		return fmt.Sprintf("has more than %d parts; shorten it", maxNodes)
	case strings.HasPrefix(message, "unknown name"):
		remedy = "; " + theNames
	}
	return place(source, found.Location) + clip.Shown(message, mostMessage) + remedy
}

// failure is the reason why a program failed on a job. The library's own message may hold
// values of the job, so it only tells the kind of failure.
func failure(source string, err error) string {
	found, ok := errors.AsType[*file.Error](err)
	if !ok {
		return "can't be computed for this job"
	}
	why := "the values of the job don't fit this operation"
	own, isOwn := errors.AsType[*valueError](err)
	switch {
	case isOwn:
		why = own.why
	case strings.HasPrefix(found.Message, "cannot fetch"):
		why = "the job has no such field, or what should hold it is missing; write ?. in front of the field, and ?? for a default"
	case strings.HasPrefix(found.Message, "index out of range"):
		why = "the job has no such entry"
	case strings.Contains(found.Message, "nil"):
		why = "a value is missing in the job; write ?? for a default"
	case found.Message == "memory budget exceeded":
		why = "takes too much memory for this job"
	}
	return place(source, found.Location) + why
}

// valueError is a value of the job that one of the package's functions refuses.
type valueError struct{ why string }

func (e *valueError) Error() string { return e.why }
