package redisclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
)

// ErrUnclear says that a change may have been made: Redis has not answered it.
var ErrUnclear = errors.New("the answer of Redis to the change did not come, so it may have been made: look at what is in force before you try again")

// AnswerLost tells whether Redis may have carried out the command that failed with err: the connection broke, or the time was over.
func AnswerLost(err error) bool {
	for _, lost := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, lost) {
			return true
		}
	}
	_, network := errors.AsType[net.Error](err)
	return network
}

// Clear finds out what became of a change that ended with err, where the answer was lost: again sends the change once more, of
// which Redis makes at most one, and tells whether it is in force. After two tries it is [ErrUnclear].
func Clear(err error, again func() bool) error {
	if !AnswerLost(err) {
		return err
	}
	const tries = 2
	for range tries {
		if again() {
			return nil
		}
	}
	return fmt.Errorf("%w: %w", ErrUnclear, err)
}
