package configcmd

import (
	"encoding/json"
	"strings"
	"testing"

	"dispatcher/cmd/dispatcher/internal/clitest"
	"dispatcher/configs"
)

func TestConfigCheckSaysWhatTheContractComesTo(t *testing.T) {
	t.Parallel()
	clitest.Run(t.Context(), New, "", nil, "config", "check").MustPrint(t,
		"limit provider: at most 400 in any 1s, burst 1", "2.525ms", "0.990", "396.0 calls a window", "203ms", "config ok")
	clitest.Run(t.Context(), New, "", nil, "config", "check", "--set", "limits.0.window=1m", "--set", "limits.0.cap=6").
		MustPrint(t, "at most 6 in any 1m,", "10.00", "config ok")
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
	clitest.Run(t.Context(), New, "", nil, set()...).MustPrint(t, "while Redis is away nothing is sent")
	clitest.Run(t.Context(), New, "", nil, set("degraded=reserve", "reserve=30", "max_nodes=10")...).
		MustPrint(t, "while Redis is away: 3 units a window on each of at most 10 nodes, for up to 10m", "366.3 calls a window")
	clitest.Run(t.Context(), New, "", nil, set("scope=node", "warm_up=30s")...).
		MustPrint(t, "each node keeps the limit for itself; Redis is not asked", "30s", "config ok")
	clitest.Run(t.Context(), New, "", nil, set("degraded=reserve", "reserve=15", "max_nodes=10")...).
		MustFail(t, "limits.0.reserve: 15: for 10 nodes is 1.5 units each")
}

func TestConfigCheckAsJSON(t *testing.T) {
	t.Parallel()
	o := clitest.Run(t.Context(), New, "", nil, "config", "check", "--json")
	var report checkReport
	if err := json.Unmarshal([]byte(o.Out), &report); err != nil || o.Err != nil {
		t.Fatalf("%v, %v: %s", err, o.Err, o.Out)
	}
	if !report.OK || len(report.Limits) != 1 || report.Limits[0].Cap != 400 || report.Limits[0].ReactionS != 0.203 {
		t.Errorf("got %+v", report)
	}
	o = clitest.Run(t.Context(), New, "", nil, "config", "check", "--json", "--set", "limits.0.cap=0", "--set", "kafka.workers=0")
	o.MustFail(t, "limits.0.cap: 0")
	report = checkReport{}
	if err := json.Unmarshal([]byte(o.Out), &report); err != nil {
		t.Fatal(err)
	}
	if report.OK || len(report.Faults) != 2 || !strings.HasPrefix(report.Faults[0], "kafka.workers: 0") {
		t.Errorf("got %+v, want both faults", report)
	}
}

func TestConfigCheckReadsTheFilesThatAreNamed(t *testing.T) {
	t.Parallel()
	clitest.Run(t.Context(), New, "", nil, "config", "check", "--set", "redis.tls.enabled=true", "--set", "redis.tls.ca_file=/no/ca.pem").
		MustFail(t, "redis.tls.ca_file: stat /no/ca.pem")
}

func TestConfigShow(t *testing.T) {
	t.Parallel()
	file := clitest.WriteFile(t, "c.yaml", "redis: {password: hunter2}\nkafka: {topics: [mine]}\n")
	for _, o := range []clitest.Outcome{
		clitest.Run(t.Context(), New, "", nil, "-c", file, "config", "show"),
		clitest.Run(t.Context(), New, "", []string{"DISPATCHER_CONFIG=" + file}, "config", "show", "--json"),
	} {
		o.MustPrint(t, "[redacted]", "mine", "max_job_bytes")
		if strings.Contains(o.Out, "hunter2") {
			t.Errorf("got the password:\n%s", o.Out)
		}
	}
	// What can't work can still be looked at.
	clitest.Run(t.Context(), New, "", nil, "config", "show", "--set", "kafka.workers=0").MustPrint(t, "workers: 0")
}

// Limits after the first have a table, and a warning where they can't count the largest job.
func TestConfigCheckShowsTheGates(t *testing.T) {
	t.Parallel()
	file := clitest.WriteFile(t, "c.yaml", `limits:
  - {name: account, cap: 300, window: 1s, max_cost: 6}
  - {name: sender, key: 'job.headers["from"]', cap: 50, window: 1s, max_cost: 6}
  - {name: otp, when: 'job.lane == "otp" and job.headers["from"] not in ["a", "b", "c", "d", "e"]', cap: 20, window: 1m}
`)
	cfg, err := configs.Load(configs.Source{File: file})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := printCheck(&out, cfg, connected{}, nil); err != nil {
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
