package main

import (
	"testing"

	"dispatcher/cmd/dispatcher/internal/clitest"
)

// An exit status of 0 says that what was asked for was done, so a slip of the
// pen must not end in a help page and success.
func TestWhatDoesNotExistIsAnError(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"rum"}, `unknown command "rum"`},
		{[]string{"limit"}, "dispatcher limit: name a subcommand: get, set, unset, pause, resume"},
		{[]string{"limit", "gat", "x"}, `unknown command "gat"`},
		{[]string{"config"}, "name a subcommand: check, show"},
		{[]string{"config", "chek"}, `unknown command "chek"`},
		{[]string{"config", "check", "x"}, "unknown command"},
		{[]string{"limit", "get"}, "name the limit: dispatcher limit get NAME"},
		{[]string{"config", "check", "--jsno"}, "unknown flag"},
		{[]string{"completion"}, "name a subcommand: bash, zsh, fish, powershell"},
		{[]string{"completion", "bsh"}, `unknown command "bsh"`},
		{[]string{"-c", "/no/such/file", "config", "check"}, "read config: stat /no/such/file"},
	} {
		clitest.RunRoot(t.Context(), newRoot, "", nil, row.args...).MustFail(t, row.want)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	clitest.RunRoot(t.Context(), newRoot, "", nil, "--version").MustPrint(t, "dispatcher ", "go1.")
}

// A run needs the provider's secrets. The check says what a run would lack.
func TestARunNeedsTheProvidersSecrets(t *testing.T) {
	t.Parallel()
	file := clitest.WriteFile(t, "dispatcher.yaml", `sender: {http: {headers: {Authorization: "Bearer ${env:PROVIDER_TOKEN}"}}}`)
	dispatcher := func(args ...string) clitest.Outcome {
		return clitest.RunRoot(t.Context(), newRoot, "", nil, append(args, "-c", file)...)
	}
	const lacks = "sender.http.headers.authorization: ${env:PROVIDER_TOKEN}: the environment has no such variable"
	dispatcher("run").MustFail(t, lacks)
	dispatcher("config", "show").MustPrint(t, "${env:PROVIDER_TOKEN}")
	dispatcher("config", "check").MustPrint(t, "config ok, but a run would lack:", lacks)
	clitest.RunRoot(t.Context(), newRoot, "", nil, "config", "check", "--set", "tracing.headers.x=${file:/no/such/file}").
		MustPrint(t, "config ok, but a run would lack:", "tracing.headers.x: ${file:/no/such/file}: stat")
}

// The check spares only secrets that are not there. Each other fault of a header is one.
func TestLawTheCheckRefusesWhatARunRefuses(t *testing.T) {
	t.Parallel()
	for settings, want := range map[string]string{
		`sender: {http: {headers: {idempotency-key: fixed}}}`:                "headers.idempotency-key: [redacted]: is set by the call itself",
		`sender: {http: {headers: {idempotency-key: "${env:NONE}"}}}`:        "headers.idempotency-key: ${env:NONE}: the environment has no such variable",
		`sender: {http: {headers: {content-length: "5"}}}`:                   "headers.content-length: [redacted]: is set by the call itself",
		`sender: {http: {headers: {authorization: "Bearer ${TOKEN}"}}}`:      "headers.authorization: a ${…} that is neither ${env:NAME}",
		`sender: {http: {headers: {authorization: "${env:NONE} ${TOKEN}"}}}`: "headers.authorization: a ${…} that is neither ${env:NAME}",
		`sender: {http: {headers: {authorization: "Bearer ${env:TOKEN}"}}}`:  "headers.authorization: [redacted]${env:TOKEN}: holds a line break",
		`tracing: {headers: {authorization: "${TOKEN}"}}`:                    "headers.authorization: a ${…} that is neither ${env:NAME}",
		`tracing: {headers: {authorization: "${env:TOKEN}"}}`:                "headers.authorization: ${env:TOKEN}: holds a line break",
		`redis: {password: "${env:NONE}"}`:                                   "redis.password: ${env:NONE}: the environment has no such variable",
	} {
		file := clitest.WriteFile(t, "dispatcher.yaml", settings)
		for _, command := range [][]string{{"config", "check"}, {"run"}} {
			clitest.RunRoot(t.Context(), newRoot, "", []string{"TOKEN=a\nb"}, append(command, "-c", file)...).MustFail(t, want)
		}
	}
}

func TestShellsComplete(t *testing.T) {
	t.Parallel()
	for shell, want := range map[string]string{"bash": "__start_dispatcher()", "zsh": "#compdef dispatcher", "fish": "complete -c dispatcher", "powershell": "Register-ArgumentCompleter"} {
		clitest.RunRoot(t.Context(), newRoot, "", nil, "completion", shell).MustPrint(t, want)
	}
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"enqueue", "--format", ""}, "lines\nndjson\n:4\n"},
		{[]string{"enqueue", "--topic", ""}, "jobs\n:4\n"},
		{[]string{"enqueue", ""}, ":0\n"}, // a file
		{[]string{"dlq", "list", "--reason", ""}, "exhausted\n"},
		{[]string{"dlq", "replay", "--to", ""}, "jobs\n:4\n"},
		{[]string{"demo", "--scenario", ""}, "plain\nsms\n:4\n"},
		{[]string{"forecast", "--algorithm", ""}, "gcra\n"},
		{[]string{"run", "-c", ""}, "yaml\nyml\n:8\n"},
		{[]string{"run", ""}, ":4\n"},
	} {
		clitest.RunRoot(t.Context(), newRoot, "", nil, append([]string{"__complete"}, row.args...)...).MustPrint(t, row.want)
	}
}
