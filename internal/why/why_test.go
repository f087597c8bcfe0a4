package why

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"dispatcher/internal/redisclient"
)

// fleet is a Redis with nodes that answer questions.
func fleet(t *testing.T, nodes ...string) redis.UniversalClient {
	t.Helper()
	server := miniredis.RunT(t)
	rdb := redisclient.New(redisclient.Options{Addrs: []string{server.Addr()}})
	t.Cleanup(func() { _ = rdb.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, len(nodes))
	for _, name := range nodes {
		s := New(Options{
			Redis: rdb, Namespace: "ns", Logger: slog.New(slog.DiscardHandler),
			Answer: func(q Question) Answer { return Answer{Node: name, Jobs: []Job{{ID: q.Job, Why: "of " + name}}} },
		})
		go func() { ended <- s.Run(ctx) }()
	}
	t.Cleanup(func() {
		cancel()
		for range nodes {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	for server.PubSubNumSub(questions("ns"))[questions("ns")] < len(nodes) { // each counts once it listens
		time.Sleep(time.Millisecond)
	}
	return rdb
}

func TestAllNodesAnswerAQuestion(t *testing.T) {
	t.Parallel()
	rdb := fleet(t, "n1", "n2", "n3")
	got, err := Ask(t.Context(), rdb, "ns", Question{Job: "order-17"}, []string{"n1", "n2", "n3"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, a := range got {
		names = append(names, a.Node)
		if len(a.Jobs) != 1 || a.Jobs[0].ID != "order-17" || a.Jobs[0].Why != "of "+a.Node {
			t.Errorf("got %+v, want what the node knows of the job", a)
		}
	}
	if slices.Sort(names); !slices.Equal(names, []string{"n1", "n2", "n3"}) {
		t.Errorf("got answers of %v, want one of each node", names)
	}
}

// A node that nobody expects, such as one that Redis refuses, answers in no other node's place.
func TestAnAnswerOfAnotherNodeIsNotCounted(t *testing.T) {
	t.Parallel()
	rdb := fleet(t, "n1", "refused")
	for range 20 {
		got, err := Ask(t.Context(), rdb, "ns", Question{Job: "order-17"}, []string{"n1"})
		if err != nil || !slices.ContainsFunc(got, func(a Answer) bool { return a.Node == "n1" }) {
			t.Fatalf("got %+v and %v, want the answer of n1", got, err)
		}
	}
}

// A node that does not answer costs its answer, and no more than the time that the caller gives.
func TestANodeThatIsSilentIsNotWaitedForLonger(t *testing.T) {
	t.Parallel()
	rdb := fleet(t, "n1")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	got, err := Ask(ctx, rdb, "ns", Question{Limit: "provider"}, []string{"n1", "n2"})
	if err != nil || len(got) != 1 {
		t.Errorf("got %d answers and %v, want the one of the node that answers", len(got), err)
	}
}

// What is no question is ignored, and the node answers the next one.
func TestWhatIsNoQuestionIsIgnored(t *testing.T) {
	t.Parallel()
	rdb := fleet(t, "n1")
	for _, text := range []string{"", "{", `{"id":"x","job":"a"}`, `{"id":"0123456789abcdef"}`, `{"id":"0123456789abcdef","job":"` + strings.Repeat("a", mostQuestion) + `"}`} {
		if err := rdb.Publish(t.Context(), questions("ns"), text).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := Ask(t.Context(), rdb, "ns", Question{Job: "a"}, []string{"n1"}); err != nil || len(got) != 1 {
		t.Errorf("got %d answers and %v, want one", len(got), err)
	}
}

func TestAQuestionNamesAJobOrALimit(t *testing.T) {
	t.Parallel()
	for _, q := range []Question{{}, {Job: "a", Limit: "b"}, {Job: strings.Repeat("a", mostQuestion)}} {
		if _, err := Ask(t.Context(), nil, "ns", q, nil); err == nil {
			t.Errorf("got no error for %.40v", q)
		}
	}
}

func FuzzQuestion(f *testing.F) {
	for _, text := range []string{`{"id":"0123456789abcdef","job":"a/1/2"}`, `{"id":"0123456789abcdef","limit":"provider"}`, `{"id":"../../../../etc/","job":"a"}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, ok := decodeQuestion(text)
		if ok && (q.validate() != nil || len(answers("ns", q.ID)) != len(answers("ns", ""))+idLength || strings.ContainsAny(q.ID, "{}:")) {
			t.Errorf("got %+v, want no question", q)
		}
	})
}

func FuzzAnswer(f *testing.F) {
	text, err := json.Marshal(Answer{Node: "n1", Jobs: []Job{{ID: "a"}}, Progress: &Progress{}, Limit: &Limit{}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Fuzz(func(t *testing.T, text string) {
		if a, ok := decodeAnswer(text); ok && (a.Node == "" || len(a.Jobs) > MostJobs) {
			t.Errorf("got %+v, want no answer", a)
		}
	})
}
