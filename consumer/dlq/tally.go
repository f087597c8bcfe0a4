package dlq

import (
	"slices"

	"dispatcher/consumer/deadletter"
)

// Tally is the outcome of a command. Open counts the letters that it read and that were not
// settled. Matched counts those of them that the filter picks. Done, Truncated, NoTopic,
// Unwritten and OutOfReach are parts of Matched.
type Tally struct {
	Open    int64
	Matched int64
	Done    int64                      // listed, replayed or dropped; after a dry run: would be
	Classes map[deadletter.Class]int64 // the open letters by class

	Truncated  int64 // not replayed: the letter holds only a part of the job
	NoTopic    int64 // not replayed: the topic to write to does not exist
	Unwritten  int64 // not replayed: Kafka refused the job or did not acknowledge it
	OutOfReach int64 // not settled: 8192 offsets or more beyond an open letter

	Settled []deadletter.RecordID // named, and settled before
	Missing []deadletter.RecordID // named, and not a letter
	Notes   []string              // for people, a sentence each

	ReadTo deadletter.RecordID // the last record that was read; no topic: none was
}

// Left is how many letters the command was asked to handle and did not.
func (t *Tally) Left() int64 {
	return t.Truncated + t.NoTopic + t.Unwritten + t.OutOfReach + int64(len(t.Settled)+len(t.Missing))
}

// Anybody may write a class into a letter, so the number of classes in a tally is bounded.
const (
	maxClasses = 64
	maxNotes   = 20
)

func (t *Tally) addOpen(l *deadletter.Letter) {
	t.Open++
	if _, known := t.Classes[l.Class]; known || len(t.Classes) < maxClasses {
		t.Classes[l.Class]++
	}
}

// uncount takes an open letter that matched back: another command has settled it since.
func (t *Tally) uncount(of deadletter.Class) {
	t.Open--
	t.Matched--
	if t.Classes[of]--; t.Classes[of] <= 0 {
		delete(t.Classes, of)
	}
}

func (t *Tally) note(text string) {
	if len(t.Notes) < maxNotes && !slices.Contains(t.Notes, text) {
		t.Notes = append(t.Notes, text)
	}
}
