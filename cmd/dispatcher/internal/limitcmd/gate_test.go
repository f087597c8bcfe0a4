package limitcmd

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"dispatcher/cmd/dispatcher/internal/clitest"
	"dispatcher/internal/redisclient"
	"dispatcher/throttle"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/quota"
)

const besideFile = `
limits:
  - {name: provider, cap: 400, window: 1s}
  - {name: recipient, key: job.json.to, when: 'job.lane != "bulk"', cap: 5, window: 1s}
`

// workingGate is a Redis with a node at work that keeps the gate recipient, of 5 a second, beside
// a limit of 400 with a guard of 10ms.
func workingGate(t *testing.T) (redisAddr string) {
	t.Helper()
	return working(t, limit.Guardrails{}, throttle.Gate{Name: "recipient", Limit: stated(5, limit.Guardrails{})})
}

func TestAGateIsShownAsOne(t *testing.T) {
	t.Parallel()
	limit, file := limitOn(t, workingGate(t)), clitest.WriteFile(t, "dispatcher.yaml", besideFile)
	get := limit("get", "recipient", "-c", file)
	get.MustPrint(t, `limit recipient: at most 5 in any 1s for each value of job.json.to, where job.lane != "bulk"`+"\n",
		"0.946", "provider", "the first limit, which has the guard", "250ms")
	for line := range strings.SplitSeq(get.Out, "\n") {
		if name, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.Contains("algorithm guard spread lateness horizon burst round", name) && name != "" {
			t.Errorf("got the line %q of a setting that no gate has", line)
		}
	}
	limit("get", "recipient").MustPrint(t, "limit recipient: at most 5 in any 1s, beside the first limit\n", "this configuration has no limit of this name")
	limit("list", "-c", file).MustPrint(t, "at most 5 in any 1s for each value of job.json.to", "at most 400 in any 1s, burst 1")
	o := limit("get", "recipient", "-c", file, "--json")
	o.MustPrint(t, `"gate":true`, `"key":"job.json.to"`, `"when":"job.lane != \"bulk\""`, `"cap":5`, `"share":0.946`)
	for _, name := range []string{"guard", "lateness", "spread", "horizon", "burst", "algorithm", "reserve", "max_in_flight"} {
		if strings.Contains(o.Out, `"`+name) {
			t.Errorf("got %s in %s, want no setting of the first limit", name, o.Out)
		}
	}
	limit("list", "-c", file, "--json").MustPrint(t, `"gate":true`, `"key":"job.json.to"`)
	if o := limit("get", "provider", "-c", file, "--json"); strings.Contains(o.Out, `"gate"`) {
		t.Errorf("got %s, want no gate", o.Out)
	}
}

// What a gate leaves of its cap follows from the guard of the first limit that is in force.
func TestTheShareOfAGateHasTheGuardOfTheFirstLimit(t *testing.T) {
	t.Parallel()
	limit, file := limitOn(t, workingGate(t)), clitest.WriteFile(t, "dispatcher.yaml", besideFile)
	limit("set", "provider", "--guard", "90ms", "-c", file).MustPrint(t)
	limit("set", "recipient", "--max-cost", "2", "-c", file).MustPrint(t, "0.734", "3.7 calls a window", "max_cost", "but 1 in this configuration",
		"27 %", "of the cap is given up for good, by the largest job or the guard of the first limit")
	limit("get", "recipient", "--set", "limits.0.name=gone").MustPrint(t, "0.757") // with the guard that the file had
}

const quotaFile = `
limits:
  - {name: provider, cap: 400, window: 1s}
  - {name: daily, cap: 1000, calendar: day, zone: Asia/Tokyo}
`

// A quota shows its window and what is used of it.
func TestAQuotaIsShownAsOne(t *testing.T) {
	t.Parallel()
	daily := limit.Spec{Terms: limit.Terms{Contract: stated(1000, limit.Guardrails{}).Contract, Quota: quota.Quota{Calendar: "day", Zone: "Asia/Tokyo"}}}
	daily.Window = 0
	daily.Terms = daily.Beside(stated(400, limit.Guardrails{}).Terms)
	limit, file := limitOn(t, working(t, limit.Guardrails{}, throttle.Gate{Name: "daily", Limit: daily})), clitest.WriteFile(t, "dispatcher.yaml", quotaFile)
	limit("get", "daily", "-c", file).MustPrint(t, "limit daily: at most 1000 in each day of Asia/Tokyo, beside the first limit\n", "1.000", "used", "of the cap; the window is over at 20")
	limit("get", "daily", "-c", file, "--json").MustPrint(t, `"calendar":"day"`, `"zone":"Asia/Tokyo"`, `"quota":{"used":0,"ends":"20`)
	limit("set", "daily", "--cap", "1200", "-c", file).MustPrint(t, "at most 1200 in each day of Asia/Tokyo")
	limit("set", "daily", "--window", "2s", "-c", file).MustFail(t, "window: 2s: is that of the quota's calendar or rolling, which can't change while the fleet runs (--window); nothing was changed")
	limit("list", "-c", file).MustPrint(t, "at most 1200 in each day of Asia/Tokyo, beside the first limit")
}

const waitingFile = `
limits:
  - {name: provider, cap: 400, window: 1s}
  - {name: recipient, key: job.json.to, cap: 5, window: 1m}
  - {name: recipient-day, key: job.json.to, cap: 20, calendar: day, on_lost: wait}
`

// After a loss of Redis a limit after the first waits, and a quota with a key for the end of its window. Both say so.
func TestAWaitAfterALossIsShown(t *testing.T) {
	t.Parallel()
	first := stated(400, limit.Guardrails{})
	recipient, day := stated(5, limit.Guardrails{}), stated(20, limit.Guardrails{})
	recipient.Window, day.Window, day.Quota = time.Minute, 0, quota.Quota{Calendar: "day", OnLost: quota.LostWait}
	day.Terms = day.Beside(first.Terms)
	addr := working(t, limit.Guardrails{}, throttle.Gate{Name: "recipient", Limit: recipient, Keyed: true}, throttle.Gate{Name: "recipient-day", Limit: day, Keyed: true})
	run, file := limitOn(t, addr), clitest.WriteFile(t, "dispatcher.yaml", waitingFile)
	if o := run("get", "recipient-day", "-c", file, "--key", "+4670"); strings.Contains(o.Out, "waits until") {
		t.Errorf("got %s of a quota that has lost nothing", o.Out)
	}
	rdb := redisclient.New(redisclient.Options{Addrs: []string{addr}})
	t.Cleanup(func() { _ = rdb.Close() })
	if err := rdb.HSet(t.Context(), "dispatcher:{default}:limit:provider", "master", "another").Err(); err != nil { // as after a failover
		t.Fatal(err)
	}
	clitest.Await(t, 30*time.Second, "the quota waits", func() bool {
		return strings.Contains(run("get", "recipient-day", "-c", file).Out, "waits until")
	})
	run("get", "recipient-day", "-c", file, "--key", "+4670").MustPrint(t, "waits until", "for each value: its counts were lost at 20", "or may have been (on_lost: wait)")
	run("get", "recipient-day", "-c", file, "--key", "+4670", "--json").MustPrint(t, `"loss":{"at":"20`, `"until":"20`)
	if o := run("get", "recipient", "-c", file, "--key", "+4670", "--json"); o.Err != nil || strings.Contains(o.Out, `"next_in_s":0}`) {
		t.Errorf("got %v and %s, want a wait for the next unit", o.Err, o.Out)
	}
}

func TestAGateIsChangedAsOne(t *testing.T) {
	t.Parallel()
	limit := limitOn(t, workingGate(t))
	for _, row := range []struct{ flag, value, want string }{
		{"--guard", "20ms", "guard: 20ms: is the first limit's: change it there (--guard); nothing was changed"},
		{"--max-in-flight", "3", "max_in_flight: 3: is the first limit's: change it there (--max-in-flight); nothing was changed"},
		{"--algorithm", "gcra", "algorithm: gcra: is the first limit's: change it there (--algorithm)"},
		{"--window", "1h", "window: 1h0m0s: must be from 1ms to 1m beside the first limit"},
	} {
		limit("set", "recipient", row.flag, row.value).MustFail(t, row.want)
		limit("set", "recipient", row.flag, row.value, "--for", "10m", "--force").MustFail(t, row.want)
	}
	limit("set", "recipient", "--cap", "7", "--for", "10m", "--wait").
		MustPrint(t, "at most 7 in any 1s, beside the first limit\n", "then at most 5 in any 1s, beside the first limit\n", "in force on 1/1 nodes after ")
	limit("pause", "recipient").MustPrint(t, "at most 7 in any 1s, beside the first limit, paused\n")
	limit("resume", "recipient").MustPrint(t, "beside the first limit\n")
	limit("undo", "recipient").MustPrint(t, "beside the first limit, paused\n")
	limit("undo", "recipient", "--to", "1").MustPrint(t, "at most 5 in any 1s, beside the first limit\n")
	limit("history", "recipient").MustPrint(t, "cap 5 → 7, until", "paused", "resumed", "back to revision 1")
	limit("get", "recipient", "--set", "limits.0.name=recipient").MustPrint(t, `"beside the first limit"`, `but "the first limit" in this configuration`)
}

// One value of the key has a cap of its own: it is set, shown, listed, written to the
// history and taken away.
func TestAValueIsShownAndChangedAsOne(t *testing.T) {
	t.Parallel()
	run, file := limitOn(t, workingGate(t)), clitest.WriteFile(t, "dispatcher.yaml", besideFile)
	hash := limit.HashOf("+4670").String()
	run("set", "recipient", "-c", file, "--key", "+4670", "--cap", "9", "--why", "support line", "--wait").
		MustPrint(t, "at most 5 in any 1s for each value of job.json.to", "in force on 1/1 nodes", "this value", "a cap of its own; every other value has 5", "support line")
	run("get", "recipient", "-c", file).MustPrint(t, "exception", "9", "for the value with the hash "+hash)
	clitest.Await(t, 30*time.Second, "the cooldown is over", func() bool {
		return strings.Contains(run("get", "recipient", "-c", file, "--hash", hash, "--json").Out, `"next_in_s":0}`)
	})
	run("get", "recipient", "-c", file, "--key", "+4671").MustPrint(t, "this value", "as every value", "next unit", "now")
	run("get", "recipient", "-c", file, "--hash", hash, "--json").
		MustPrint(t, `"value":{"hash":"`+hash+`","cap":9,"exception":true,"next_in_s":0}`, `"exceptions":[{"hash":"`+hash+`","cap":9}]`)
	run("set", "recipient", "-c", file, "--key", "+4670", "--cap", "8", "--for", "1h").MustPrint(t, "a cap of its own until 20", ", then 5 as every value")
	run("history", "recipient", "-c", file).MustPrint(t, "cap of "+hash[:8]+"… none → 9", "cap of "+hash[:8]+"… 9 → 8 until 20")
	run("undo", "recipient", "-c", file).MustPrint(t, "exception", "9")
	run("unset", "recipient", "-c", file, "--key", "+4670").MustPrint(t, "as every value")
	run("history", "recipient", "-c", file).MustPrint(t, "9 → none")
	for _, args := range [][]string{
		{"recipient", "--key", "", "--cap", "7", "key: \"\": must not be empty: no job has an empty key (--key); nothing was changed"},
		{"recipient", "--key", "a", "--hash", hash, "--cap", "7", "hash: \"" + hash + "\": names the same as --key: leave one of them out (--hash); nothing was changed"},
		{"recipient", "--hash", "abc", "--cap", "7", "hash: \"abc\": must be 32 hexadecimal digits, as limit get shows them (--hash); nothing was changed"},
		{"recipient", "--key", "a", "--window", "2s", "window: \"2s\": is the same for every value of the key: only --cap goes with --key or --hash (--window); nothing was changed"},
		{"recipient", "--key", "a", "--cap", "", "cap: \"\": must be a whole number, at least 1; limit unset takes the exception away (--cap); nothing was changed"},
		{"recipient", "--key", "a", "--cap", "0", "cap: \"0\": must be a whole number, at least 1; limit unset takes the exception away (--cap); nothing was changed"},
		{"provider", "--key", "a", "--cap", "7", "key: given: is for a limit with a key: provider counts all jobs together (--key); nothing was changed"},
	} {
		last := len(args) - 1
		run(append([]string{"set", "-c", file}, args[:last]...)...).MustFail(t, args[last])
	}
	run("unset", "recipient", "-c", file).MustFail(t, "limit unset: name the value: give --key or --hash; nothing was changed")
	run("unset", "recipient", "-c", file, "--key", "a", "--for", "1h").MustFail(t, "limit unset: --for is for limit set")
}

// A value that the provider wants no job of is shown with the end of its block, and released by hand. Its last grant still
// counts, so its cap holds.
func TestABlockOfAValueIsShownAndReleased(t *testing.T) {
	t.Parallel()
	addr, hash := workingGate(t), limit.HashOf("+4670")
	run, file := limitOn(t, addr), clitest.WriteFile(t, "dispatcher.yaml", besideFile)
	rdb := redisclient.New(redisclient.Options{Addrs: []string{addr}})
	t.Cleanup(func() { _ = rdb.Close() })
	epoch, err := rdb.HGet(t.Context(), "dispatcher:{default}:limit:provider", "epoch").Result()
	if err != nil {
		t.Fatal(err)
	}
	key, now := "dispatcher:{default}:gate:recipient:"+epoch+":"+hash.String(), time.Now()
	grant := fmt.Sprintf("%d 1 1", now.UnixMicro())
	if err := rdb.Set(t.Context(), key, grant+fmt.Sprintf(" %d", now.Add(time.Hour).UnixMicro()), time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	run("get", "recipient", "-c", file, "--key", "+4670").MustPrint(t, "next unit", "in 59m5", "blocked until", "as the provider asked; limit release ends it")
	run("get", "recipient", "-c", file, "--key", "+4670", "--json").MustPrint(t, `"blocked_until":"20`)
	run("release", "recipient", "-c", file).MustFail(t, "limit release: name the value: give --key or --hash; nothing was changed")
	if o := run("release", "recipient", "-c", file, "--key", "+4670", "--why", "they called"); o.Err != nil || strings.Contains(o.Out, "blocked until") {
		t.Errorf("got %v and %s, want no block any more", o.Err, o.Out)
	}
	if got := rdb.Get(t.Context(), key).Val(); got != grant {
		t.Errorf("got the state %q, want %q", got, grant)
	}
	if ttl := rdb.PTTL(t.Context(), key).Val(); ttl <= 0 {
		t.Errorf("got a state that is kept for %v, want it to end", ttl)
	}
	run("history", "recipient", "-c", file).MustPrint(t, "the value with the hash "+hash.String()+" was released by hand: they called")
	run("release", "recipient", "-c", file, "--key", "+4670").MustPrint(t, "next unit") // there is no block any more
}
