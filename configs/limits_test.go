package configs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/quota"
)

const threeLimits = `
limits:
  - {name: account, cap: 300, window: 1s}
  - {name: sender, key: 'job.headers["from"]', cap: 50, window: 1s, max_cost: 6, max_cap: 100, max_step: 2}
  - {name: otp, when: 'job.lane == "otp"', cap: 20, window: 1m}
cost: 'int(job.headers["cost"] ?? "1")'
`

func loadText(t *testing.T, text string, set ...string) Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(Source{File: path, Set: set})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestGates(t *testing.T) {
	t.Parallel()
	c := loadText(t, threeLimits, "limits.0.guard=20ms", "limits.0.lateness=5ms", "limits.0.horizon=100ms")
	if err := c.checkLimits(); err != nil {
		t.Fatal(err)
	}
	gates := c.Gates()
	spec := func(cap, cost int64, window time.Duration) limit.Spec {
		return limit.Spec{Terms: limit.Terms{Gate: true, Algorithm: limit.TokenBucket, Contract: limit.Contract{
			Cap: cap, Window: window, Burst: 1, MaxCost: cost,
			Guard: 20 * time.Millisecond, Lateness: 5 * time.Millisecond, Spread: 7 * time.Millisecond, Horizon: 100 * time.Millisecond,
		}}}
	}
	sender, otp := spec(50, 6, time.Second), spec(20, 1, time.Minute)
	sender.Guardrails = limit.Guardrails{MaxCap: 100, MaxStep: 2}
	want := []Gate{{Name: "sender", Key: `job.headers["from"]`, Spec: sender, ThrottledAs: "sender"}, {Name: "otp", When: `job.lane == "otp"`, Spec: otp, ThrottledAs: "otp"}}
	if diff := cmp.Diff(want, gates); diff != "" {
		t.Errorf("gates (-want +got):\n%s", diff)
	}
	for name, want := range map[string]limit.Spec{"account": c.Limits[0].Stated(), "sender": sender, "otp": otp} {
		if got, ok := c.Stated(name); !ok || !cmp.Equal(got, want) {
			t.Errorf("%s: got %+v and %t, want %+v", name, got, ok, want)
		}
	}
	if _, ok := c.Stated("other"); ok {
		t.Error("found a limit that the file has not")
	}
	auto := loadText(t, threeLimits).Gates()[0].Spec
	if !auto.Auto || auto.Guard != 10*time.Millisecond {
		t.Errorf("got guard %s, auto %t, want the first limit's", auto.Guard, auto.Auto)
	}
}

func TestFaultsOfLimits(t *testing.T) {
	t.Parallel()
	alone := "is the first limit's alone: leave it out here"
	for setting, want := range map[string]string{
		"limits.0.key=job.key":                     `limits.0.key: "job.key": must be empty: the first limit counts every job`,
		"limits.0.when=true":                       `limits.0.when: "true": must be empty`,
		"limits.0.cost=2":                          `limits.0.cost: "2": must be empty: state the setting cost`,
		"limits.1.cost=job.lane":                   `limits.1.cost: "job.lane": `,
		"limits.0.scope=node":                      `limits.0.scope: "node": must be cluster with more than one limit`,
		"limits.1.name=account":                    `limits.1.name: "account": is the name of limits.0; give each limit a name of its own`,
		"limits.2.name=sender":                     `limits.2.name: "sender": is the name of limits.1`,
		"limits.1.name=A":                          `limits.1.name: "A": must be 1 to 63 of`,
		"limits.1.key=job.jsn":                     `limits.1.key: "job.jsn": at column 5: job has no field "jsn"; the names are job.key,`,
		"limits.2.when=job.lane":                   `limits.2.when: "job.lane": can never be a bool`,
		"cost=job.lane ==":                         `cost: "job.lane ==": at column 11: unexpected token EOF`,
		`cost="a"`:                                 `cost: "\"a\"": can never be a whole number`,
		"cost=0":                                   `cost: "0": gives a number below 1, and must give a whole number from 1 to 1000000000`,
		"limits.1.cost=-1":                         `limits.1.cost: "-1": gives a number below 1`,
		"limits.1.window=99ms":                     `limits.1.window: 99ms: must be at least 10 times the guard of 10ms`,
		"limits.1.window=100us":                    `limits.1.window: 100µs: must be from 1ms to 1m`,
		"limits.1.window=61s":                      `limits.1.window: 1m1s: must be from 1ms to 1m beside the first limit; what is longer is a quota: state calendar or rolling instead`,
		"limits.1.window=1000h":                    `limits.1.window: 1000h0m0s: must be from 1ms to 1m`,
		"limits.2.cap=0":                           `limits.2.cap: 0: must be from 1 to 1000000000`,
		"limits.1.max_cost=51":                     `limits.1.max_cost: 51: must be at most 50`,
		"limits.1.max_cap=10":                      `limits.1.max_cap: 10: must be at least the cap of 50`,
		"limits.1.burst=1":                         `limits.1.burst: 1: ` + alone,
		"limits.1.burst=2":                         `limits.1.burst: 2: ` + alone,
		"limits.1.algorithm=token_bucket":          `limits.1.algorithm: "token_bucket": ` + alone,
		"limits.1.algorithm=none":                  `limits.1.algorithm: "none": ` + alone,
		"limits.1.reserve=5":                       `limits.1.reserve: 5: ` + alone,
		"limits.1.max_nodes=5":                     `limits.1.max_nodes: 5: ` + alone,
		"limits.1.degraded=wait":                   `limits.1.degraded: "wait": ` + alone,
		"limits.1.scope=cluster":                   `limits.1.scope: "cluster": ` + alone,
		"limits.1.warm_up=5s":                      `limits.1.warm_up: 5s: ` + alone,
		"limits.1.capacity=5":                      `limits.1.capacity: 5: ` + alone,
		"limits.1.when_full=wait":                  `limits.1.when_full: "wait": ` + alone,
		"limits.1.max_in_flight=5":                 `limits.1.max_in_flight: 5: ` + alone,
		"limits.1.ignore_throttled=true":           `limits.1.ignore_throttled: true: ` + alone,
		"limits.1.throttled_as=14107":              `limits.1.throttled_as: "14107": say in sender.http.throttled_limit where an answer says so`,
		"limits.0.throttled_as=14107":              `limits.0.throttled_as: "14107": must be empty: every throttled answer that is about no other`,
		"limits.1.weights=a=2":                     `limits.1.weights: "a=2": ` + alone,
		"limits.1.guard=auto":                      `limits.1.guard: "auto": ` + alone,
		"limits.1.lateness=3ms":                    `limits.1.lateness: 3ms: ` + alone,
		"limits.1.spread=7ms":                      `limits.1.spread: 7ms: ` + alone,
		"limits.1.horizon=200ms":                   `limits.1.horizon: 200ms: ` + alone,
		"limits.0.horizon=1s":                      `limits.0.horizon: 1s: must be from`,
		"limits.0.guard=soon":                      `limits.0.guard: "soon": must be auto`,
		"limits.1.key=" + `job.headers[""`:         `limits.1.key: "job.headers[\"\"": at column 14: unexpected token EOF`,
		"limits.0.max_in_flight=-1":                `limits.0.max_in_flight: -1:`,
		"limits.0.cap=" + fmt.Sprint(1<<40):        `limits.0.cap: 1099511627776`,
		"limits.2.when=" + "job.lane in [job.key]": "",
	} {
		err := loadText(t, threeLimits, setting).checkLimits()
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: got %v, want no fault", setting, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%s: got %v, want one fault with %s", setting, err, want)
		}
	}
	for settings, want := range map[string]string{
		"limits.1.throttled_as=a limits.2.throttled_as=b":                                        "",
		"limits.1.throttled_as=a limits.2.throttled_as=a":                                        `limits.2.throttled_as: "a": is what limits.1 has; an answer must be about one limit`,
		"limits.2.throttled_as=sender":                                                           `limits.2.throttled_as: "sender": is what limits.1 has; an answer must be about one limit`,
		"limits.1.throttled_as=a limits.1.calendar=day limits.1.window=0s limits.1.on_lost=open": `limits.1.throttled_as: "a": must be empty for a quota`,
	} {
		err := loadText(t, threeLimits, append(strings.Fields(settings), "sender.http.throttled_limit=json:error.code")...).checkLimits()
		if (want == "") != (err == nil) || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: got %v, want one fault with %s", settings, err, want)
		}
	}
	for settings, want := range map[string]string{
		"degraded=reserve reserve=10 max_nodes=10": "limits.0.degraded: \"reserve\": must be wait with more than one limit",
		"algorithm=leaky_bucket when_full=refuse":  "limits.0.when_full: \"refuse\": must be wait with more than one limit",
	} {
		set := strings.Fields(settings)
		for i := range set {
			set[i] = "limits.0." + set[i]
		}
		c := loadText(t, threeLimits, set...)
		if err := c.checkLimits(); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", settings, err, want)
		}
		c.Limits = c.Limits[:1]
		if err := c.checkLimits(); err != nil {
			t.Errorf("%s: got %v, want no fault of the only limit", settings, err)
		}
	}
}

const twoQuotas = `
limits:
  - {name: account, cap: 300, window: 1s}
  - {name: daily, cap: 100000, calendar: day, zone: Europe/Berlin}
  - {name: recipient, key: job.json.to, cap: 20, rolling: 24h, on_lost: open}
`

func TestQuotas(t *testing.T) {
	t.Parallel()
	c := loadText(t, twoQuotas)
	if err := c.checkLimits(); err != nil {
		t.Fatal(err)
	}
	gates := c.Gates()
	if got, want := gates[0].Spec.Quota, (quota.Quota{Calendar: "day", Zone: "Europe/Berlin"}); got != want || gates[0].Spec.Window != 25*time.Hour {
		t.Errorf("got %+v in %v, want %+v", got, gates[0].Spec.Window, want)
	}
	if got, want := gates[1].Spec.Quota, (quota.Quota{Rolling: 24 * time.Hour, OnLost: quota.LostOpen}); got != want || gates[1].Spec.Window != 24*time.Hour {
		t.Errorf("got %+v in %v, want %+v", got, gates[1].Spec.Window, want)
	}
	for setting, want := range map[string]string{
		"limits.1.calendar=week":   `limits.1.calendar: "week": must be`,
		"limits.1.zone=Mars":       `limits.1.zone: "Mars": is no time zone`,
		"limits.1.rolling=24h":     "limits.1.rolling: 24h0m0s: must be 0 with a calendar",
		"limits.1.window=1s":       "limits.1.window: 1s: must be left out of a quota",
		"limits.1.on_lost=wait":    `limits.1.on_lost: "wait": is for a quota with a key`,
		"limits.1.max_cost=100001": "limits.1.max_cost: 100001: must be at most 100000",
		"limits.2.on_lost=":        `limits.2.on_lost: "": must be wait or open for a quota with a key`,
		"limits.2.on_lost=stop":    `limits.2.on_lost: "stop": must be`,
		"limits.2.rolling=500ms":   "limits.2.rolling: 500ms: must be from 1s",
		"limits.2.rolling=1000h":   "limits.2.rolling: 1000h0m0s: must be from 1s",
		"limits.2.zone=UTC":        `limits.2.zone: "UTC": is for a calendar only`,
		"limits.0.calendar=day":    `limits.0.calendar: "day": must be left out: the first limit has a pace`,
		"limits.0.on_lost=wait":    `limits.0.on_lost: "wait": must be left out`,
	} {
		if err := loadText(t, twoQuotas, setting).checkLimits(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want one fault with %s", setting, err, want)
		}
	}
}

func TestAtMostSixteenLimits(t *testing.T) {
	t.Parallel()
	c := loadText(t, threeLimits)
	for i := 3; i <= 17; i++ {
		err := c.checkLimits()
		if (err != nil) != (i > 16) {
			t.Errorf("%d limits: got %v", len(c.Limits), err)
		}
		one := c.Limits[1]
		one.Name = fmt.Sprint("gate", i)
		c.Limits = append(c.Limits, one)
	}
	if err := c.checkLimits(); err == nil || err.Error() != "limits: 18 entries: at most 16 are supported" {
		t.Errorf("got %v", err)
	}
}

// A key of a gate can be set from the environment, and what config show prints is read back.
func TestGatesAreShownAndReadBack(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(threeLimits), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(Source{File: path, Set: []string{"limits.2.when=job.lane != \"bulk\""}, Environ: func() []string {
		return []string{`DISPATCHER_LIMITS_1_KEY=job.json.to ?? "none"`, "DISPATCHER_LIMITS_1_CAP=7", "DISPATCHER_COST=2"}
	}})
	if err != nil || c.checkLimits() != nil {
		t.Fatal(err, c.checkLimits())
	}
	if g := c.Gates(); g[0].Key != `job.json.to ?? "none"` || g[0].Spec.Cap != 7 || g[1].When != `job.lane != "bulk"` || c.Cost != "2" {
		t.Errorf("got %+v and cost %s", g, c.Cost)
	}
	text, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again := loadText(t, string(text))
	if diff := cmp.Diff(c.Limits, again.Limits, cmpopts.EquateEmpty()); diff != "" || again.Cost != c.Cost || again.checkLimits() != nil {
		t.Errorf("read back: %v (-want +got):\n%s", again.checkLimits(), diff)
	}
}
