package deadletter

import "testing"

func FuzzParseRecordID(f *testing.F) {
	for _, s := range []string{"jobs.dlq/3/1042", "", "a/0/0", "a/-1/0", "a/1/9223372036854775808", "a//", "a/01/1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := ParseRecordID(text)
		if err != nil {
			return
		}
		back, err := ParseRecordID(id.String())
		if err != nil || back != id || id.Partition < 0 || id.Offset < 0 {
			t.Fatalf("%q: got %v, and after a round trip %v and error %v, want the same id", text, id, back, err)
		}
	})
}
