package sender_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dispatcher/internal/boottime"
	"dispatcher/sender"
)

func TestPermitIsAskedLast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{serve: answering(ok)}
		s := newSender(t, sender.Options{Dial: n.dial})
		defer s.Close()
		var granted time.Time
		res := s.Send(t.Context(), aJob("a", "hello"), func(context.Context) (boottime.Deadline, error) {
			time.Sleep(time.Second) // all others have come as far as they can
			if dials, writes := n.seen(); dials != 1 || len(writes) != 0 {
				t.Errorf("at the permit: %d connections and %d writes, want 1 and 0", dials, len(writes))
			}
			granted = time.Now()
			return boottime.By(granted.Add(time.Millisecond)), nil
		})
		if res.Kind != sender.Accepted || !res.WroteAt.Equal(granted) {
			t.Errorf("got %v written at %v, want accepted, written at %v", res.Kind, res.WroteAt, granted)
		}
		_, writes := n.seen()
		if len(writes) != 1 || !bytes.HasPrefix(writes[0], []byte("POST /send HTTP/1.1\r\n")) || !bytes.HasSuffix(writes[0], []byte("\r\n\r\nhello")) {
			t.Errorf("got %d writes %q, want headers and body in one", len(writes), writes)
		}
	})
}

func TestPermitRefusedWritesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{serve: answering(ok)}
		s := newSender(t, sender.Options{Dial: n.dial})
		defer s.Close()
		stopping := errors.New("the node stops")
		res := s.Send(t.Context(), aJob("a", "x"), func(context.Context) (boottime.Deadline, error) { return boottime.Deadline{}, stopping })
		if res.Kind != sender.NotSent || !errors.Is(res.Err, stopping) || !res.WroteAt.IsZero() {
			t.Errorf("got %+v, want not sent and never written", res)
		}
		permits := 0
		s.Send(t.Context(), aJob("b", "x"), always(&permits))
		if dials, writes := n.seen(); dials != 1 || len(writes) != 1 {
			t.Errorf("got %d connections, %d writes; want 1 and 1: the connection is kept", dials, len(writes))
		}
	})
}

func TestLatePermitIsAskedAgainOnTheSameConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{serve: answering(ok)}
		s := newSender(t, sender.Options{Dial: n.dial})
		defer s.Close()
		asked := 0
		res := s.Send(t.Context(), aJob("a", "x"), func(context.Context) (boottime.Deadline, error) {
			asked++
			return boottime.By(time.Now().Add(time.Duration(asked-3) * time.Second)), nil
		})
		dials, writes := n.seen()
		if res.Kind != sender.Accepted || asked != 3 || dials != 1 || len(writes) != 1 {
			t.Errorf("got %v, %d permits, %d connections, %d writes; want accepted, 3, 1, 1", res.Kind, asked, dials, len(writes))
		}
	})
}

func TestTimeoutStartsAtTheWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{serve: func(_ int, _ net.Conn, br *bufio.Reader) {
			readCall(br)
			_, _ = br.Peek(1) // hangs until the other side closes
		}}
		s := newSender(t, sender.Options{Config: sender.Config{Timeout: 2 * time.Second}, Dial: n.dial})
		defer s.Close()
		res := s.Send(t.Context(), aJob("a", "x"), func(context.Context) (boottime.Deadline, error) {
			time.Sleep(time.Hour)
			return boottime.Deadline{}, nil
		})
		if res.Kind != sender.Unknown || res.Elapsed != 2*time.Second || res.Status != 0 {
			t.Errorf("got %+v, want unknown after 2s", res)
		}
		if !strings.Contains(res.Err.Error(), "2s") {
			t.Errorf("got error %q, want one that names the timeout", res.Err)
		}
	})
}

func TestContextEndsTheWaitButNotTheCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{serve: func(_ int, c net.Conn, br *bufio.Reader) {
			for readCall(br) {
				time.Sleep(2 * time.Second)
				_, _ = io.WriteString(c, ok)
			}
		}}
		s := newSender(t, sender.Options{Dial: n.dial})
		defer s.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		permits := 0
		if res := s.Send(ctx, aJob("a", "x"), always(&permits)); res.Kind != sender.Accepted || res.Elapsed != 2*time.Second {
			t.Errorf("got %+v, want accepted after 2s", res)
		}
		waits := func(ctx context.Context) (boottime.Deadline, error) {
			<-ctx.Done()
			return boottime.Deadline{}, ctx.Err()
		}
		if res := s.Send(ctx, aJob("b", "x"), waits); res.Kind != sender.NotSent {
			t.Errorf("got %+v, want not sent", res)
		}
	})
}

func TestDialThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
		s := newSender(t, sender.Options{Config: sender.Config{DialTimeout: 3 * time.Second}, Dial: hang})
		defer s.Close()
		begun, permits := time.Now(), 0
		if res := s.Send(t.Context(), aJob("a", "x"), always(&permits)); res.Kind != sender.Unavailable || time.Since(begun) != 3*time.Second {
			t.Errorf("got %+v after %v, want unavailable after 3s", res, time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if res := s.Send(ctx, aJob("a", "x"), always(&permits)); res.Kind != sender.NotSent {
			t.Errorf("got %+v, want not sent: the caller gave up, the provider didn't", res)
		}
		if permits != 0 {
			t.Errorf("got %d permits, want none", permits)
		}
	})
}

func TestConnectionClosedWhileIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{serve: func(_ int, c net.Conn, br *bufio.Reader) {
			readCall(br)
			_, _ = io.WriteString(c, ok) // and close
		}}
		s := newSender(t, sender.Options{Dial: n.dial})
		defer s.Close()
		permits := 0
		for range 3 {
			if res := s.Send(t.Context(), aJob("a", "x"), always(&permits)); res.Kind != sender.Accepted {
				t.Errorf("got %+v, want accepted", res)
			}
			synctest.Wait()
		}
		if dials, writes := n.seen(); dials != 3 || len(writes) != 3 || permits != 3 {
			t.Errorf("got %d connections, %d writes, %d permits; want 3 each", dials, len(writes), permits)
		}
	})
}

func TestConnectionThatDiesUnderThePermit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var first net.Conn
		n := &network{serve: func(n int, c net.Conn, br *bufio.Reader) {
			if n == 0 {
				first = c
			}
			answering(ok)(n, c, br)
		}}
		s := newSender(t, sender.Options{Dial: n.dial})
		defer s.Close()
		asked := 0
		res := s.Send(t.Context(), aJob("a", "x"), func(context.Context) (boottime.Deadline, error) {
			synctest.Wait()
			if asked++; asked == 1 {
				_ = first.Close()
				synctest.Wait()
			}
			return boottime.Deadline{}, nil
		})
		dials, writes := n.seen()
		if res.Kind != sender.Accepted || asked != 2 || dials != 2 || len(writes) != 1 {
			t.Errorf("got %v, %d permits, %d connections, %d writes; want accepted, 2, 2, 1", res.Kind, asked, dials, len(writes))
		}
	})
}

func TestProviderThatClosesEveryConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{serve: func(int, net.Conn, *bufio.Reader) {}}
		s := newSender(t, sender.Options{Dial: n.dial})
		defer s.Close()
		asked := 0
		res := s.Send(t.Context(), aJob("a", "x"), func(context.Context) (boottime.Deadline, error) {
			asked++
			synctest.Wait()
			return boottime.Deadline{}, nil
		})
		if res.Kind != sender.Unavailable || asked != 3 || !res.WroteAt.IsZero() {
			t.Errorf("got %+v after %d permits, want unavailable after 3, never written", res, asked)
		}
	})
}

// net/http resends such a call by itself on a connection that was used before.
func TestNothingIsSentAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		n := &network{serve: func(_ int, c net.Conn, br *bufio.Reader) {
			for readCall(br) {
				if calls++; calls == 2 {
					return // read, not answered
				}
				_, _ = io.WriteString(c, ok)
			}
		}}
		s := newSender(t, sender.Options{Dial: n.dial})
		defer s.Close()
		permits := 0
		s.Send(t.Context(), aJob("a", "x"), always(&permits))
		res := s.Send(t.Context(), aJob("b", "x"), always(&permits))
		synctest.Wait()
		_, writes := n.seen()
		if res.Kind != sender.Unknown || res.WroteAt.IsZero() || calls != 2 || len(writes) != 2 || permits != 2 {
			t.Errorf("got %+v, %d calls, %d writes, %d permits; want unknown and 2 each", res, calls, len(writes), permits)
		}
	})
}

func TestRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{serve: answering("HTTP/1.1 307 Temporary Redirect\r\nLocation: http://provider.test/other\r\nContent-Length: 0\r\n\r\n")}
		s := newSender(t, sender.Options{Dial: n.dial})
		defer s.Close()
		permits := 0
		res := s.Send(t.Context(), aJob("a", "x"), always(&permits))
		if _, writes := n.seen(); res.Kind != sender.Unavailable || res.Status != 307 || len(writes) != 1 {
			t.Errorf("got %+v and %d writes, want unavailable and 1: it is no job's fault", res, len(writes))
		}
		if !strings.Contains(res.Err.Error(), "redirect") || strings.Contains(res.Err.Error(), "other") {
			t.Errorf("got error %q, want one that speaks of the redirect, and not where it leads", res.Err)
		}
	})
}

func TestStatusDecidesWhateverTheBodyDoes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer string
		hang   bool
		after  time.Duration
	}{
		"cut":      {answer: "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"},
		"hangs":    {answer: "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", hang: true, after: 2 * time.Second},
		"endless":  {answer: "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + strings.Repeat("x", 100_000), hang: true},
		"no chunk": {answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := &network{serve: func(_ int, conn net.Conn, br *bufio.Reader) {
					readCall(br)
					_, _ = io.WriteString(conn, c.answer)
					if c.hang {
						_, _ = br.Peek(1)
					}
				}}
				s := newSender(t, sender.Options{Config: sender.Config{Timeout: 2 * time.Second}, Dial: n.dial})
				defer s.Close()
				permits := 0
				for range 2 { // the second one shows that the connection was given up
					res := s.Send(t.Context(), aJob("a", "x"), always(&permits))
					if res.Kind != sender.Accepted || res.Elapsed != c.after {
						t.Errorf("got %+v, want accepted after %v", res, c.after)
					}
				}
				if dials, _ := n.seen(); dials != 2 {
					t.Errorf("got %d connections, want 2", dials)
				}
			})
		})
	}
}

// The beginning of an answer is kept where it did not accept the job, if that is
// wanted, and never cut within a rune.
func TestTheBeginningOfAnAnswerIsKept(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", sender.MaxAnswer-1) + "é" + strings.Repeat("b", 1000)
	for name, c := range map[string]struct {
		status, body, messageID string
		drop                    bool
		bound                   int // of an answer; 0: the default
		want                    string
		dials                   int // of two calls; 0: one
	}{
		"rejected":            {status: "400 Bad Request", body: `{"code":"21211"}`, want: `{"code":"21211"}`},
		"unavailable":         {status: "503 Service Unavailable", body: "busy", want: "busy", dials: 2},
		"accepted":            {status: "200 OK", body: "fine"},
		"long":                {status: "422 Unprocessable", body: long, want: strings.Repeat("a", sender.MaxAnswer-1)},
		"no text":             {status: "400 Bad Request", body: "a\xff\xfeb", want: "ab"},
		"empty":               {status: "400 Bad Request"},
		"with a message's id": {status: "400 Bad Request", body: `{"code":"1"}`, messageID: "json:id", want: `{"code":"1"}`},
		"not wanted":          {status: "400 Bad Request", body: "secret", drop: true},
		"beyond the bound":    {status: "400 Bad Request", body: long, bound: 1000, want: strings.Repeat("a", sender.MaxAnswer-1), dials: 2},
		"beyond the bound with a message's id": {
			status: "400 Bad Request", body: long, bound: 1000, messageID: "json:id", want: strings.Repeat("a", sender.MaxAnswer-1), dials: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := &network{serve: func(_ int, conn net.Conn, br *bufio.Reader) {
					for readCall(br) {
						_, _ = fmt.Fprintf(conn, "HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", c.status, len(c.body), c.body)
					}
				}}
				s := newSender(t, sender.Options{Config: sender.Config{MessageID: c.messageID, KeepAnswers: !c.drop, MaxResponseBytes: c.bound}, Dial: n.dial})
				defer s.Close()
				permits := 0
				for range 2 { // the second one shows that the answer was read to its end
					if got := s.Send(t.Context(), aJob("a", "x"), always(&permits)).Answer; got != c.want {
						t.Errorf("got %q, want %q", got, c.want)
					}
				}
				if dials, _ := n.seen(); dials != max(c.dials, 1) {
					t.Errorf("got %d connections, want %d", dials, max(c.dials, 1))
				}
			})
		})
	}
}

// Plain HTTP on a port that wants https blames no job.
func TestPlainHTTPOnAPortForHTTPS(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body string
		want sender.Kind
	}{
		"Go":            {"Client sent an HTTP request to an HTTPS server.\n", sender.Unavailable},
		"nginx":         {"<html><head><title>400 The plain HTTP request was sent to HTTPS port</title></head>", sender.Unavailable},
		"a job's fault": {`{"code":"21211","message":"not a number"}`, sender.Rejected},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := &network{serve: answering(fmt.Sprintf("HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n%s", len(c.body), c.body))}
				s := newSender(t, sender.Options{Dial: n.dial})
				defer s.Close()
				permits := 0
				r := s.Send(t.Context(), aJob("a", "x"), always(&permits))
				if r.Kind != c.want || r.Answer != "" || (c.want == sender.Unavailable) != strings.Contains(r.Err.Error(), "it wants https on this port") {
					t.Errorf("got %v, %v, answer %q; want %v", r.Kind, r.Err, r.Answer, c.want)
				}
			})
		})
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"empty":     "",
		"half line": "HTTP/1.1 20",
		"no http":   "+4915100000000 secret\r\n\r\n",
		"switching": "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := &network{serve: func(_ int, c net.Conn, br *bufio.Reader) {
					readCall(br)
					_, _ = io.WriteString(c, answer)
				}}
				s := newSender(t, sender.Options{Dial: n.dial})
				defer s.Close()
				permits := 0
				res := s.Send(t.Context(), aJob("a", "x"), always(&permits))
				if res.Kind != sender.Unknown || res.WroteAt.IsZero() || res.Err == nil {
					t.Fatalf("got %+v, want unknown", res)
				}
				if strings.Contains(res.Err.Error(), "secret") {
					t.Errorf("the error repeats what the provider said: %q", res.Err)
				}
			})
		})
	}
}

func TestCloseEndsCallsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{serve: func(_ int, _ net.Conn, br *bufio.Reader) {
			readCall(br)
			_, _ = br.Peek(1)
		}}
		s := newSender(t, sender.Options{Config: sender.Config{Timeout: time.Hour}, Dial: n.dial})
		time.AfterFunc(time.Second, s.Close)
		permits := 0
		if res := s.Send(t.Context(), aJob("a", "x"), always(&permits)); res.Kind != sender.Unknown || res.Elapsed != time.Second {
			t.Errorf("got %+v, want unknown after 1s", res)
		}
		if res := s.Send(t.Context(), aJob("b", "x"), always(&permits)); res.Kind != sender.NotSent || !errors.Is(res.Err, sender.ErrClosed) {
			t.Errorf("got %+v, want not sent: closed", res)
		}
		if permits != 1 {
			t.Errorf("got %d permits, want 1", permits)
		}
	})
}
