package integration

import (
	"errors"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// rangeCase is a group's offset that is not in the log, and what a policy makes of it.
type rangeCase struct {
	policy   string
	offset   int64  // what the group has committed
	begins   int64  // where the log, of a hundred records, begins
	from, to int    // the jobs that are called; those up to 100 were there before
	says     string // what the node says; one that stops ends with it
}

// outOfRange: where a group's offset lies before the beginning of the log or
// beyond its end, kafka.out_of_range says what follows, and the node tells.
func (w *servers) outOfRange(t *testing.T) {
	t.Parallel()
	const refused = "offset %d is outside of the log from %d to 100, and out_of_range is stop"
	for _, c := range []rangeCase{
		{"earliest", 20, 60, 60, 105, "records were deleted before they were worked"},
		{"latest", 20, 60, 100, 105, "begin at the log's end; the records before are given up"},
		{"stop", 20, 60, 0, 0, fmt.Sprintf(refused, 20, 60)},
		{"earliest", 500, 0, 0, 105, "begin with the first record"},
		{"latest", 500, 0, 100, 105, "begin at the log's end; the records before are given up"},
		{"stop", 500, 0, 0, 0, fmt.Sprintf(refused, 500, 0)},
	} {
		t.Run(fmt.Sprint(c.policy, " at ", c.offset), func(t *testing.T) {
			t.Parallel()
			w.rangeCase(t, c)
		})
	}
}

func (w *servers) rangeCase(t *testing.T, c rangeCase) {
	t.Helper()
	const jobs, more = 100, 5
	s := w.scene(t, 1000, 1, 0, "kafka.out_of_range="+c.policy)
	s.putWhere(t, s.at(0, "job", 0, jobs)...)
	if c.begins > 0 {
		s.deleteRecords(t, c.begins)
	}
	s.commit(t, c.offset)
	n := s.startOne(t)
	code := 0
	if c.policy == "stop" {
		ended, ok := errors.AsType[*exec.ExitError](n.wait(t, time.Minute))
		if !ok {
			t.Fatal("the node ended without an error")
		}
		code = ended.ExitCode()
	} else {
		eventually(t, time.Minute, func() bool { return s.committed(t)[0] <= jobs && s.committed(t)[0] != c.offset },
			func() string { return fmt.Sprintf("offset %d is still committed", c.offset) })
		s.putWhere(t, s.at(0, "job", jobs, jobs+more)...)
		eventually(t, time.Minute, func() bool { return s.committed(t)[0] == jobs+more }, func() string { return "not all is settled" })
		s.lagGone(t)
		stop(t, n)
	}
	n.tells(t, c.says)
	want := map[string][]int{}
	for i := c.from; i < c.to; i++ {
		want[fmt.Sprint("job-", i)] = []int{200}
	}
	if diff := cmp.Diff(want, statuses(s.judge.arrivals(t))); diff != "" {
		t.Errorf("other jobs were called than should be (-want +got):\n%s", diff)
	}
	t.Logf("%s, the group at %d and the log from %d to %d: %d of %d jobs called, exit status %d; says %q",
		c.policy, c.offset, c.begins, jobs, c.to-c.from, jobs+more, code, c.says)
}
