package sender_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"dispatcher/internal/boottime"
	"dispatcher/internal/provider"
	"dispatcher/job"
	"dispatcher/sender"
)

const helperEnv = "DISPATCHER_SENDER_TEST_PROVIDER"

// TestMain lets the test binary run as the provider of the benchmark: in a
// process of its own, so that its work isn't counted.
func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) == "" {
		os.Exit(m.Run())
	}
	p := provider.New(provider.Options{Guard: -1})
	if err := p.Up(context.Background()); err != nil {
		os.Exit(1)
	}
	_, _ = os.Stdout.WriteString(p.Addr() + "\n")
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // the parent closes our standard input when it is done
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	_ = p.Run(ctx)
}

func otherProcess(b *testing.B) (address string) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"=1")
	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	if errIn != nil || errOut != nil {
		b.Fatal(errIn, errOut)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	line := make([]byte, 64)
	n, err := out.Read(line)
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(string(line[:n]))
}

func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkSend reports the process's CPU time a call, beside a bare client's.
func BenchmarkSend(b *testing.B) {
	body := []byte(`{"id":"order-1","to":"+4915100000000","text":"Your code is 123456"}`)
	b.Run("bare", func(b *testing.B) {
		url := "http://" + otherProcess(b) + "/send"
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
		parallel(b, func(id string) {
			req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, bytes.NewReader(body))
			if err != nil {
				b.Error(err)
				return
			}
			req.Header.Set("Idempotency-Key", id)
			req.Header.Set("Content-Type", "application/json")
			resp, err := client.Do(req)
			if err != nil {
				b.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		})
	})
	b.Run("send", func(b *testing.B) {
		s, err := sender.New(sender.Options{Config: sender.Config{URL: "http://" + otherProcess(b) + "/send"}})
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		permit := func(context.Context) (boottime.Deadline, error) { return boottime.By(time.Now().Add(time.Second)), nil }
		parallel(b, func(id string) {
			j := job.Job{ID: id, ContentType: "application/json", Record: job.Record{Value: body}}
			if res := s.Send(b.Context(), j, permit); res.Kind != sender.Accepted {
				b.Error(res)
			}
		})
	})
}

func parallel(b *testing.B, call func(id string)) {
	b.Helper()
	b.ReportAllocs()
	b.SetParallelism(8)
	before := cpu(b)
	b.RunParallel(func(pb *testing.PB) {
		for n := 0; pb.Next(); n++ {
			call(strconv.Itoa(n))
		}
	})
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N), "µs-cpu/op")
}
