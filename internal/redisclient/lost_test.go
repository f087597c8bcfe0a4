package redisclient_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"dispatcher/internal/redisclient"
)

// What Redis answers, and what was never sent, is not unclear.
func TestAnAnswerIsLostWhereNoneCame(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		lost bool
	}{
		{nil, false},
		{redis.Nil, false},
		{redis.ErrClosed, false},
		{fmt.Errorf("settings of 40000 bytes"), false},
		{fmt.Errorf("change: %w", io.EOF), true},
		{fmt.Errorf("change: %w", context.DeadlineExceeded), true},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, true},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, true},
	} {
		if got := redisclient.AnswerLost(c.err); got != c.lost {
			t.Errorf("%v: got lost %t, want %t", c.err, got, c.lost)
		}
	}
	rdb := redisclient.New(redisclient.Options{Addrs: []string{silent(t)}, Timeout: 1})
	defer func() { _ = rdb.Close() }()
	if err := rdb.Ping(t.Context()).Err(); !redisclient.AnswerLost(err) {
		t.Errorf("got %v of a server that does not answer, want it lost", err)
	}
}

// silent is the address of a server that takes connections and answers nothing.
func silent(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}
