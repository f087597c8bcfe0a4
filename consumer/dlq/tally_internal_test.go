package dlq

import (
	"testing"

	"dispatcher/consumer/deadletter"
)

// The classes of the open letters add up to these, also where another command has settled some meanwhile.
func TestTheClassesAddUp(t *testing.T) {
	t.Parallel()
	tally := Tally{Classes: map[deadletter.Class]int64{}}
	for _, class := range []deadletter.Class{deadletter.ClassPermanent, deadletter.ClassPermanent, deadletter.ClassExpired} {
		tally.addOpen(&deadletter.Letter{Class: class})
		tally.Matched++
	}
	tally.uncount(deadletter.ClassPermanent)
	tally.uncount(deadletter.ClassExpired)
	if _, known := tally.Classes[deadletter.ClassExpired]; known || tally.Open != 1 || tally.Matched != 1 || tally.Classes[deadletter.ClassPermanent] != 1 {
		t.Errorf("got %+v, want one open letter, of class permanent, and no other class", tally)
	}
}
