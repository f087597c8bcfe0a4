// Package redisfault makes a Redis client lose answers, for tests.
//
// It knows no command, and starts no goroutine.
package redisfault

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// ErrLost is the error of a command whose answer was lost.
var ErrLost = fmt.Errorf("the connection broke before the answer came: %w", io.ErrUnexpectedEOF)

// Answers loses answers, once it is added to a client with AddHook.
type Answers struct {
	Of   func(redis.Cmder) bool // the commands that it is about
	Runs bool                   // Redis runs them; else it never gets them
	left atomic.Int64
}

// Lose loses the next n answers.
func (a *Answers) Lose(n int64) { a.left.Store(n) }

// DialHook changes nothing.
func (*Answers) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook changes nothing.
func (*Answers) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook loses an answer. One that is an error, such as that Redis does not know the script yet, is not lost.
func (a *Answers) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if a.left.Load() == 0 || !a.Of(cmd) {
			return next(ctx, cmd)
		}
		if a.Runs {
			if err := next(ctx, cmd); err != nil {
				return err
			}
		}
		a.left.Add(-1)
		cmd.SetErr(ErrLost)
		return ErrLost
	}
}
