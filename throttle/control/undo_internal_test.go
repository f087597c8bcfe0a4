package control

import (
	"reflect"
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
	if err := ch.goBack(4, []Entry{{Revision: 4, To: then}}); err != nil {
		t.Fatal(err)
	}
	now := then
	now.Spread, now.Paused, now.Burst = 7*time.Millisecond, true, 5
	ch.applyTo(&now)
	if !reflect.DeepEqual(now, then) {
		t.Errorf("got %+v, want %+v", now, then)
	}
}
