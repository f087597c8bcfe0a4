package setupcheck

import (
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // the name of a script, as Redis makes it
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"dispatcher/throttle/limit"
)

// life is how long a key of the check is kept if it can't be deleted.
const life = 10 * time.Second

// seenLater is what is worse without notifications.
const seenLater = "nodes see a change only when they poll"

// command is a command that a node calls, with arguments that harm nothing.
type command struct {
	right string // as ACL SETUSER has it
	args  []any  // after the command's name
	spare string // what is worse without it, where the fleet works; empty: it doesn't
}

// commands are those of a node. Each key has a time to live from the command after the one that makes it.
func (s *setup) commands() []command {
	hash, text, stream, list := s.key("hash"), s.key("text"), s.key("stream"), s.key("list")
	const one = "return 1"
	sum := sha1.Sum([]byte(one)) //nolint:gosec // as above
	all := []command{
		{right: "eval", args: []any{one, 1, hash}},
		{right: "evalsha", args: []any{hex.EncodeToString(sum[:]), 1, hash}},
		{right: "time"},
		{right: "info", args: []any{"server"}},
		{right: "hset", args: []any{hash, "f", "1"}},
		{right: "persist", args: []any{hash}},
		{right: "pexpire", args: []any{hash, life.Milliseconds()}},
		{right: "hget", args: []any{hash, "f"}},
		{right: "hmget", args: []any{hash, "f"}},
		{right: "hgetall", args: []any{hash}},
		{right: "hexists", args: []any{hash, "f"}},
		{right: "hdel", args: []any{hash, "f"}},
		{right: "set", args: []any{text, "1", "PX", life.Milliseconds()}},
		{right: "get", args: []any{text}},
		{right: "mget", args: []any{text}},
		{right: "exists", args: []any{text}},
		{right: "xadd", args: []any{stream, "MAXLEN", 1, "*", "f", "1"}},
		{right: "pexpire", args: []any{stream, life.Milliseconds()}},
		{right: "publish", args: []any{hash, "check"}, spare: seenLater},
	}
	counts := command{right: "hincrby", args: []any{hash, "n", 1}, spare: "the page and dispatcher status show no node"}
	switch s.algorithm {
	case limit.SlidingWindowLog, limit.SlidingWindowList:
		all = append(all, command{right: "rpush", args: []any{list, "1"}}, command{right: "pexpire", args: []any{list, life.Milliseconds()}},
			command{right: "lindex", args: []any{list, 0}}, command{right: "ltrim", args: []any{list, 0, 0}})
	case limit.RedisCell:
		all = append(all, command{right: "cl.throttle", args: []any{text + ":cell", 1, 1, 1, 1}})
	}
	if s.Config.Dedup.Enabled {
		counts.spare = ""
		all = append(all, command{right: "hlen", args: []any{hash}},
			command{right: "pexpireat", args: []any{hash, time.Now().Add(life).UnixMilli()}})
	}
	return append(all, counts, command{right: "del", args: []any{hash, text, stream, list, text + ":cell"}})
}

// rights calls each command that a node calls, and names those that the account may not.
func rights(ctx context.Context, s *setup) (found []Finding, err error) {
	commands := s.commands()
	replies := make([]*redis.Cmd, len(commands))
	p := s.server.Pipeline()
	for i, c := range commands {
		replies[i] = p.Do(ctx, append([]any{c.right}, c.args...)...)
	}
	_, err = p.Exec(ctx)
	if err != nil && !isReply(err) {
		return nil, err
	}
	for i, c := range commands {
		if refused := replies[i].Err(); refused != nil && isDenied(refused) {
			found = s.lacks(found, c, refused)
		}
	}
	notices := s.Redis.Subscribe(ctx, s.key("hash"))
	defer func() { _ = notices.Close() }()
	if _, err := notices.Receive(ctx); err != nil && isDenied(err) {
		found = s.lacks(found, command{right: "subscribe", spare: seenLater}, err)
	}
	s.denied = len(found) > 0
	return found, nil
}

// lacks adds a right that is missing, once.
func (s *setup) lacks(found []Finding, c command, answer error) []Finding {
	pattern, give := "dispatcher:{"+s.Config.Redis.Namespace+"}:*", "+"+c.right
	switch text := answer.Error(); {
	case strings.Contains(text, "channel"):
		give = "&" + pattern
	case strings.Contains(text, " key"):
		give = "~" + pattern
	}
	user := cmp.Or(s.Config.Redis.Username, "default")
	f := Finding{Level: Fault, Remedy: fmt.Sprintf("ACL SETUSER %s %s", user, give)}
	f.Found = fmt.Sprintf("the account %s may not call %s on %s: %s", user, strings.ToUpper(c.right), pattern, cmp.Or(c.spare, "nothing is sent"))
	if c.spare != "" {
		f.Level = Warning
	}
	if slices.ContainsFunc(found, func(other Finding) bool { return other.Remedy == f.Remedy }) {
		return found
	}
	return append(found, f)
}
