package states

import "testing"

// TestTheStateAfterEachEvent has a line for each pair of a state and an event that has an
// effect there. No other pair has one.
func TestTheStateAfterEachEvent(t *testing.T) {
	t.Parallel()
	type pair struct {
		state State
		event Event
	}
	want := map[pair]State{
		{Fetched, Admit}: Waiting,

		{Waiting, Sleep}:   Asleep,
		{Waiting, Enqueue}: Ready,
		{Waiting, Divert}:  Diverted,

		{Asleep, Wake}: Waiting,

		{Ready, HandOut}: InFlight,
		{Ready, Divert}:  Diverted,

		{InFlight, Sleep}:       Asleep,
		{InFlight, Requeue}:     Waiting,
		{InFlight, PutBack}:     Ready,
		{InFlight, BeginRecord}: Writing,
		{InFlight, TimeOut}:     TimedOut,
		{InFlight, LetGo}:       Over,

		{Writing, Sleep}:       Asleep,
		{Writing, Requeue}:     Waiting,
		{Writing, PutBack}:     Ready,
		{Writing, BeginRecord}: Writing,
		{Writing, AbortRecord}: InFlight,
		{Writing, LetGo}:       Over,
		{Writing, EndRecord}:   Over,

		{Diverted, Sleep}:     Asleep,
		{Diverted, EndRecord}: Over,

		{TimedOut, LetGo}:     Diverted,
		{TimedOut, EndRecord}: Abandoned,

		{Abandoned, LetGo}: Over,
	}
	for s := range State(states) {
		for e := range Event(events) {
			after, effect := want[pair{s, e}]
			got, ok := s.Next(e)
			if ok != effect || ok && got != after {
				t.Errorf("state %d, event %d: got state %d and effect %v, want state %d and effect %v", s, e, got, ok, after, effect)
			}
		}
	}
}
