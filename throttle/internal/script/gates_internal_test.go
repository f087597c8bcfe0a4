package script

import (
	"errors"
	"testing"

	"dispatcher/throttle/limit"
)

// Whatever a reply says of the jobs, it names jobs and gates that were asked for, or is refused.
func FuzzChoice(f *testing.F) {
	f.Add("1:2000 2:-5", "3:1:1700000000000000")
	f.Add("", "")
	f.Add("1", "2:1")
	f.Add("4:0", "1:2:0")
	f.Add("1:2:3", "1:1:9223372036854775808")
	a := Ask{Costs: []int64{1, 2, 3}, Gates: Gates{Names: []string{"recipient"}, Known: make([]limit.Settings, 1)}}
	f.Fuzz(func(t *testing.T, granted, refused string) {
		c, err := a.decodeChoice(1_700_000_000_000_000, []string{granted, refused, "", ""})
		if err != nil {
			if !errors.Is(err, ErrReply) {
				t.Fatalf("got %v, want an error that says that the reply is wrong", err)
			}
			return
		}
		for _, g := range c.Granted {
			if g.Job < 0 || g.Job >= len(a.Costs) {
				t.Errorf("got job %d granted of %q, want one of %d", g.Job, granted, len(a.Costs))
			}
		}
		for _, r := range c.Refused {
			if r.Job < 0 || r.Job >= len(a.Costs) || r.Gate != 0 {
				t.Errorf("got job %d refused by gate %d of %q, want one of %d jobs and the only gate", r.Job, r.Gate, refused, len(a.Costs))
			}
		}
	})
}

// What does not have the form of a grant or a refusal is an error.
func TestAChoiceOfAnotherFormIsRefused(t *testing.T) {
	t.Parallel()
	a := Ask{Costs: []int64{1, 2, 3}, Gates: Gates{Names: []string{"recipient"}, Known: make([]limit.Settings, 1)}}
	for _, texts := range [][2]string{{"1", ""}, {"1:x", ""}, {"1:2:3", ""}, {"0:1", ""}, {"4:1", ""}, {"", "1:1"}, {"", "1:2:5"}, {"", "1:1:9223372036854775808"}} {
		if c, err := a.decodeChoice(0, []string{texts[0], texts[1], "", ""}); !errors.Is(err, ErrReply) {
			t.Errorf("got %+v and %v of grants %q and refusals %q, want an error", c, err, texts[0], texts[1])
		}
	}
}
