package redisclient

import (
	"errors"

	"github.com/redis/go-redis/v9"
)

// ErrUnclear says that a change may have been made: Redis has not answered it.
var ErrUnclear = errors.New("the answer of Redis to the change did not come, so it may have been made: look at what is in force before you try again")

// AnswerLost tells whether Redis may have carried out the command that failed with err: no reply came. An error that Redis
// itself replies is none of these.
func AnswerLost(err error) bool {
	var reply redis.Error
	return err != nil && !errors.As(err, &reply)
}
