package configs_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dispatcher/configs"
)

// Each file in testdata is named for its fault and says in its first lines what
// the error must hold ("# want:", one line a fault) and must not ("# never:").
func TestEveryFaultIsNamed(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 20 {
		t.Fatalf("got %d files (%v), want the collection of faults", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want, never := expectations(string(text))
			if len(want) == 0 {
				t.Fatal("the file does not say what it wants")
			}
			got := faultsOf(configs.Source{File: file})
			if len(got) != len(want) {
				t.Errorf("got %d faults, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
			}
			all := strings.Join(got, "\n")
			for _, w := range want {
				if !strings.Contains(all, w) {
					t.Errorf("got\n%s\nwant it to hold\n%s", all, w)
				}
			}
			for _, n := range never {
				if strings.Contains(all, n) {
					t.Errorf("got\n%s\nwhich shows the secret", all)
				}
			}
		})
	}
}

// faultsOf is all that is wrong with the settings.
func faultsOf(src configs.Source) []string {
	_, err := configs.Check(src, nil)
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

func expectations(text string) (want, never []string) {
	for line := range strings.Lines(text) {
		if w, ok := strings.CutPrefix(line, "# want: "); ok {
			want = append(want, strings.TrimSpace(w))
		}
		if n, ok := strings.CutPrefix(line, "# never: "); ok {
			never = append(never, strings.TrimSpace(n))
		}
	}
	return want, never
}

// With .dlq behind it, a topic has the 249 characters that Kafka takes.
func TestLongestTopic(t *testing.T) {
	t.Parallel()
	for length, bad := range map[int]bool{245: false, 246: true} {
		c := load(t, configs.Source{Set: []string{"kafka.topics=" + strings.Repeat("t", length)}})
		if err := c.Validate(); (err != nil) != bad {
			t.Errorf("%d characters: got %v, want an error: %t", length, err, bad)
		}
	}
}

// One run names the unknown keys, what can't be read from any source, the values
// that make no sense and the files that are not there, each of them once.
func TestAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	file := write(t, "kafka: {workerz: 3, drain: 7, order: by-name, tls: {enabled: true, ca_file: /no/ca.pem}}\n"+
		"limits: [{name: a, cap: many, window: 1s}]\nredis: {password: '${env:NONE}', username: '${env:NONE}'}\n")
	never := func(configs.Config) error {
		t.Error("the node was asked about settings that are not sound")
		return nil
	}
	_, err := configs.Check(configs.Source{
		File:    file,
		Environ: environ("DISPATCHER_KAFKA_SESSION=soon", "DISPATCHER_NODES=x"),
		Set:     []string{"admin.listen=8080", "sender.retry.attempts=none", "no.such=1"},
	}, never)
	want := []string{
		file + `: unknown key "kafka.workerz" (did you mean kafka.workers?)`,
		file + `: kafka.drain: 7: must be a duration`,
		file + `: limits.0.cap: "many": must be a whole number`,
		`environment: DISPATCHER_NODES names no setting`,
		`DISPATCHER_KAFKA_SESSION: kafka.session: "soon": must be a duration`,
		`--set sender.retry.attempts: sender.retry.attempts: "none": must be a whole number`,
		`--set no.such: unknown key "no.such"`,
		`redis.username: ${env:NONE}: the environment has no such variable`,
		`redis.password: ${env:NONE}: the environment has no such variable`,
		`kafka.order: "by-name": must be one of`,
		`admin.listen: "8080": must be host:port`,
		`kafka.tls.ca_file: stat /no/ca.pem`,
	}
	if err == nil {
		t.Fatal("got no error")
	}
	got := strings.Split(err.Error(), "\n")
	if len(got) != len(want) {
		t.Errorf("got %d faults, want %d:\n%v", len(got), len(want), err)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("got\n%v\nwant it to hold\n%s", err, w)
		}
	}
}

// The node is asked where nothing but an unknown key stands in the way; not where
// the file can't be read at all.
func TestTheNodeIsAskedAboutSoundValues(t *testing.T) {
	t.Parallel()
	refuses := func(configs.Config) error { return errors.New("the node refuses") }
	_, err := configs.Check(configs.Source{Set: []string{"kafka.workerz=3"}}, refuses)
	if err == nil || !strings.Contains(err.Error(), "kafka.workerz") || !strings.Contains(err.Error(), "the node refuses") {
		t.Errorf("got %v, want the unknown key and what the node refuses", err)
	}
	if _, err := configs.Check(configs.Source{File: write(t, "a: [")}, refuses); err == nil || strings.Contains(err.Error(), "refuses") {
		t.Errorf("got %v, want the file's fault alone", err)
	}
	if c, err := configs.Check(configs.Source{}, func(configs.Config) error { return nil }); err != nil || c.Kafka.Workers != 256 {
		t.Errorf("got %v and %d workers, want the defaults", err, c.Kafka.Workers)
	}
}
