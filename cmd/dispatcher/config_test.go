package main

import (
	"encoding/json"
	"strings"
	"testing"

	"dispatcher/configs"
)

func TestConfigCheckSaysWhatTheContractComesTo(t *testing.T) {
	t.Parallel()
	dispatcher(t.Context(), "", nil, "config", "check").mustPrint(t,
		"limit provider: at most 400 in any 1s, burst 1", "2.525ms", "0.990", "396.0 calls a window", "203ms", "config ok")
	dispatcher(t.Context(), "", nil, "config", "check", "--set", "limits.0.window=1m", "--set", "limits.0.cap=6").
		mustPrint(t, "at most 6 in any 1m,", "10.00", "config ok")
}

func TestConfigCheckSaysWhatHoldsWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	set := func(settings ...string) []string {
		args := []string{"config", "check"}
		for _, s := range settings {
			args = append(args, "--set", "limits.0."+s)
		}
		return args
	}
	dispatcher(t.Context(), "", nil, set()...).mustPrint(t, "while Redis is away nothing is sent")
	dispatcher(t.Context(), "", nil, set("degraded=reserve", "reserve=30", "max_nodes=10")...).
		mustPrint(t, "while Redis is away: 3 units a window on each of at most 10 nodes, for up to 10m", "366.3 calls a window")
	dispatcher(t.Context(), "", nil, set("scope=node", "warm_up=30s")...).
		mustPrint(t, "each node keeps the limit for itself; Redis is not asked", "30s", "config ok")
	dispatcher(t.Context(), "", nil, set("degraded=reserve", "reserve=15", "max_nodes=10")...).
		mustFail(t, "limits.0.reserve: 15: for 10 nodes is 1.5 units each")
}

func TestConfigCheckAsJSON(t *testing.T) {
	t.Parallel()
	o := dispatcher(t.Context(), "", nil, "config", "check", "--json")
	var report checkReport
	if err := json.Unmarshal([]byte(o.out), &report); err != nil || o.err != nil {
		t.Fatalf("%v, %v: %s", err, o.err, o.out)
	}
	if !report.OK || len(report.Limits) != 1 || report.Limits[0].Cap != 400 || report.Limits[0].ReactionS != 0.203 {
		t.Errorf("got %+v", report)
	}
	o = dispatcher(t.Context(), "", nil, "config", "check", "--json", "--set", "limits.0.cap=0", "--set", "kafka.workers=0")
	o.mustFail(t, "limits.0.cap: 0")
	report = checkReport{}
	if err := json.Unmarshal([]byte(o.out), &report); err != nil {
		t.Fatal(err)
	}
	if report.OK || len(report.Faults) != 2 || !strings.HasPrefix(report.Faults[0], "kafka.workers: 0") {
		t.Errorf("got %+v, want both faults", report)
	}
}

func TestConfigCheckReadsTheFilesThatAreNamed(t *testing.T) {
	t.Parallel()
	dispatcher(t.Context(), "", nil, "config", "check", "--set", "redis.tls.enabled=true", "--set", "redis.tls.ca_file=/no/ca.pem").
		mustFail(t, "redis.tls.ca_file: stat /no/ca.pem")
}

func TestConfigShow(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "c.yaml", "redis: {password: hunter2}\nkafka: {topics: [mine]}\n")
	for _, o := range []outcome{
		dispatcher(t.Context(), "", nil, "-c", file, "config", "show"),
		dispatcher(t.Context(), "", []string{"DISPATCHER_CONFIG=" + file}, "config", "show", "--json"),
	} {
		o.mustPrint(t, "[redacted]", "mine", "max_job_bytes")
		if strings.Contains(o.out, "hunter2") {
			t.Errorf("got the password:\n%s", o.out)
		}
	}
	// What can't work can still be looked at.
	dispatcher(t.Context(), "", nil, "config", "show", "--set", "kafka.workers=0").mustPrint(t, "workers: 0")
}

// Limits after the first have a table, and a warning where they can't count the largest job.
func TestConfigCheckShowsTheGates(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "c.yaml", `limits:
  - {name: account, cap: 300, window: 1s, max_cost: 6}
  - {name: sender, key: 'job.headers["from"]', cap: 50, window: 1s, max_cost: 6}
  - {name: otp, when: 'job.lane == "otp" and job.headers["from"] not in ["a", "b", "c", "d", "e"]', cap: 20, window: 1m}
`)
	cfg, err := configs.Load(configs.Source{File: file})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := printCheck(&out, cfg, nil, nil); err != nil {
		t.Fatal(err)
	}
	want := `limits beside it, which a job must pass as well:
  name    key                  at most   spacing   usable share  a job counts  when
  sender  job.headers["from"]  50 in 1s  22.445ms  0.891         its units     always
  otp     all jobs             20 in 1m  3.0005s   1.000         its units     job.lane == "otp" and job.headers["from"] not in ["a", "b", …
  warning: jobs of more than 1 units become dead letters by the limit otp: state its cost, such as "1", or raise its max_cost
`
	if !strings.Contains(out.String(), want) {
		t.Errorf("got\n%s\nwant it to hold\n%s", out.String(), want)
	}
	report := newCheckReport(cfg, nil)
	if len(report.Limits) != 1 || len(report.Gates) != 2 || report.Gates[0].SpacingS != 0.022445 || report.Gates[0].Key != `job.headers["from"]` || report.Gates[1].MaxCost != 1 {
		t.Errorf("got %+v", report)
	}
}
