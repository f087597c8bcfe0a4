package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// quota holds processes to a part of the CPU, as a container's CPU limit does.
type quota struct {
	dir  string
	stat string // path of the file that counts the throttled periods
}

var quotas atomic.Int64

// newQuota makes a cgroup, of version 1 or 2, whose processes get run of CPU time
// in each period. It returns an error where this machine lets nobody make one.
func newQuota(t *testing.T, run, period time.Duration) (*quota, error) {
	t.Helper()
	name := fmt.Sprintf("dispatcher-%d-%d", os.Getpid(), quotas.Add(1))
	var faults []error
	for _, try := range []func(string, time.Duration, time.Duration) (*quota, error){quotaV1, quotaV2} {
		q, err := try(name, run, period)
		if err == nil {
			t.Cleanup(func() { _ = os.Remove(q.dir) }) // its processes have ended before: they were started later
			return q, nil
		}
		faults = append(faults, err)
	}
	return nil, errors.Join(faults...)
}

func quotaV1(name string, run, period time.Duration) (*quota, error) {
	root := ""
	for _, dir := range []string{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"} {
		if _, err := os.Stat(filepath.Join(dir, "cpu.cfs_quota_us")); err == nil {
			root = dir
		}
	}
	if root == "" {
		return nil, errors.New("cgroup v1: there is no cpu controller under /sys/fs/cgroup")
	}
	return makeQuota(filepath.Join(root, name), map[string]string{
		"cpu.cfs_period_us": fmt.Sprint(period.Microseconds()), "cpu.cfs_quota_us": fmt.Sprint(run.Microseconds()),
	})
}

func quotaV2(name string, run, period time.Duration) (*quota, error) {
	const root = "/sys/fs/cgroup"
	has, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil {
		return nil, fmt.Errorf("cgroup v2: %w", err)
	}
	if !strings.Contains(string(has), "cpu") {
		return nil, fmt.Errorf("cgroup v2: the controllers are %q: cpu is not among them", has)
	}
	if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+cpu"), 0); err != nil {
		return nil, fmt.Errorf("cgroup v2: %w", err)
	}
	return makeQuota(filepath.Join(root, name), map[string]string{
		"cpu.max": fmt.Sprintf("%d %d", run.Microseconds(), period.Microseconds()),
	})
}

func makeQuota(dir string, files map[string]string) (*quota, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make a cgroup: %w", err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0); err != nil {
			return nil, errors.Join(fmt.Errorf("set a CPU quota: %w", err), os.Remove(dir))
		}
	}
	return &quota{dir: dir, stat: filepath.Join(dir, "cpu.stat")}, nil
}

// command starts what follows it inside the group: the shell joins it, and then
// becomes the program.
func (q *quota) command() []string {
	return []string{"sh", "-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, q.dir}
}

// throttled is in how many periods the quota stopped the group, and for how
// many there was something to run.
func (q *quota) throttled(t *testing.T) (stopped, periods int) {
	t.Helper()
	text, err := os.ReadFile(q.stat)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		_, _ = fmt.Sscanf(line, "nr_throttled %d", &stopped)
		_, _ = fmt.Sscanf(line, "nr_periods %d", &periods)
	}
	return stopped, periods
}
