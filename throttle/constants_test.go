package throttle

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"testing"

	"dispatcher/throttle/internal/clock"
	"dispatcher/throttle/limit"
	"dispatcher/throttle/limit/quota"
)

// A script can't read a constant of Go. Where both need one fact, they state the same.
func TestScriptsStateWhatGoStates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file, constant string // a regular expression, whose group is the number
		want           int64
	}{
		{"reserve/call.lua", `local HORIZON = (\d+)`, limit.MaxHorizon.Microseconds()},
		{"reserve/call.lua", `local LONGEST = (\d+)`, limit.MaxGateWindow.Microseconds()},
		{"reserve/quotas.lua", `PARTS = (\d+)`, quota.Parts},
		{"algorithms/gcra.lua", `local MOST = 2 \^ (\d+)`, int64(math.Log2(limit.MaxUnits))},
		{"pace.lua", `local FAR = 2 \^ (\d+)`, int64(math.Log2(clock.Far))},
		{"lateness.lua", `local CLASSES = (\d+)`, int64(len(limit.LatenessClasses)) + 1},
	} {
		text, err := os.ReadFile("../lua/" + c.file)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(c.constant).FindSubmatch(text)
		if found == nil {
			t.Errorf("%s has no %s", c.file, c.constant)
			continue
		}
		if got, err := strconv.ParseInt(string(found[1]), 10, 64); err != nil || got != c.want {
			t.Errorf("%s: %s: got %d, want %d as Go has it", c.file, c.constant, got, c.want)
		}
	}
}
