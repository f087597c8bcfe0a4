package control

import (
	"testing"
	"time"

	"dispatcher/throttle/limit"
)

// A return to a revision restores every term that an operator can change, also one that was
// zero then.
func TestAReturnRestoresTermsThatWereZero(t *testing.T) {
	t.Parallel()
	then := limit.Terms{Algorithm: limit.TokenBucket, Contract: limit.Contract{
		Cap: 300, Window: time.Second, Burst: 1, Guard: 10 * time.Millisecond, Lateness: 3 * time.Millisecond, Horizon: 200 * time.Millisecond,
	}}
	var ch Change
	if err := ch.goBack(4, []Entry{{To: limit.Settings{Terms: then, Revision: 4}}}); err != nil {
		t.Fatal(err)
	}
	now := limit.Settings{Terms: then}
	now.Spread, now.Paused, now.Burst = 7*time.Millisecond, true, 5
	if err := ch.Values.Apply(&now); err != nil || now.Terms != then {
		t.Errorf("got %+v, %v, want %+v", now.Terms, err, then)
	}
}
