// Package script calls the Redis scripts of one limit. It is the only place, beside
// the scripts' headers, that knows the order of their arguments and replies, and the
// names of a limit's keys.
//
// It keeps no state and starts no goroutine. The caller bounds each call with a
// context. A reply of another form is [ErrReply].
package script
