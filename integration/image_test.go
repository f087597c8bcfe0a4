package integration

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"dispatcher/internal/containers"
)

const (
	imageVersion = "v1.2.3-test"
	imageMost    = 40_000_000 // bytes of the image as it lies on a host
	imageUser    = "65532:65532"
)

// The image of deploy/Dockerfile: what it weighs, how fast it starts, that its health check works without a shell and on a file
// system that can't be written to, and that nodes in containers are replaced under load without a lost or repeated job.
func TestImageReal(t *testing.T) {
	w := startServers(t, containers.Kafka)
	image := buildImage(t)
	weigh(t, image)
	if got := docker(t, "run", "--rm", "--network", "none", "--read-only", image, "--version"); !strings.HasPrefix(got, "dispatcher "+imageVersion+" go") {
		t.Errorf("got %q, want the version %s", got, imageVersion)
	}
	if got, err := try(t, "run", "--rm", "--network", "none", "--read-only", image, "demo", "--nodes", "3"); err == nil || !strings.Contains(got, "this build has none") {
		t.Errorf("got %q and %v, want that the image has no demo", got, err)
	}
	const limit, seconds = 300, 40
	s := w.scene(t, limit, 12, 20*time.Millisecond)
	first := s.run(t, image)
	first.healthy(t)
	t.Logf("at idle a node has %s of memory", first.memory(t))

	nodes := []*pod{first, s.run(t, image), s.run(t, image)}
	s.enqueue(t, limit*seconds)
	s.judge.count(t, limit, time.Minute)
	var longest time.Duration
	for _, old := range nodes {
		began := time.Now()
		old.stop(t)
		longest = max(longest, time.Since(began))
		nodes = append(nodes, s.run(t, image))
	}
	if s.judge.report(t, limit).Sent >= limit*seconds {
		t.Error("all jobs were called before the last node was replaced: that says too little")
	}
	s.settled(t, 3*time.Minute)
	for _, last := range nodes[3:] {
		last.stop(t)
	}
	r := s.judge.report(t, limit)
	once(t, r, limit*seconds)
	t.Logf("three nodes were replaced one by one under load: %d jobs, %d lost, %d repeated, a node gone after %v at most, %.3f of the cap used, "+
		"%d of %d in the fullest judged second, %.3f unjudged",
		limit*seconds, limit*seconds-r.Distinct, r.Repeated, longest.Round(10*time.Millisecond), r.Utilisation, r.MaxInWindow, limit, r.Unjudged)
	figure(t, r.Utilisation >= 0.85, "got %.3f of the cap used while nodes were replaced, want at least 0.85", r.Utilisation)
}

// docker runs the command line of Docker, and returns what it printed.
func docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := try(t, args...)
	if err != nil {
		t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func try(t *testing.T, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "docker", args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// buildRelease builds dispatcher as a release of that version, with build tags.
func buildRelease(t *testing.T, path, version, tags string) {
	t.Helper()
	build := exec.CommandContext(t.Context(), "../deploy/build.sh", path, version)
	build.Env = append(os.Environ(), "GOOS=linux", "TAGS="+tags)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("deploy/build.sh: %v\n%s", err, out)
	}
}

// buildImage builds the image's last stage as it stands in the Dockerfile. What that copies from the first one, which compiles in an
// image with Go, the same script builds here: no test compiles everything once more, and no stage is left behind.
func buildImage(t *testing.T) (image string) {
	t.Helper()
	if _, err := exec.LookPath("docker"); err != nil {
		if os.Getenv("DISPATCHER_REQUIRE_DOCKER") == "1" {
			t.Fatalf("DISPATCHER_REQUIRE_DOCKER=1, and there is no command docker: %v", err)
		}
		t.Skip("needs the command docker")
	}
	dir := t.TempDir()
	buildRelease(t, filepath.Join(dir, "dispatcher"), imageVersion, "nodemo")
	trusted, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	if err != nil {
		t.Logf("the image trusts no authority: %v", err)
	}
	text, err := os.ReadFile("../deploy/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	last := bytes.LastIndex(text, []byte("\nFROM "))
	for name, content := range map[string][]byte{
		"ca-certificates.crt": trusted,
		"Dockerfile":          append([]byte("ARG BASE_IMAGE=scratch\n"), bytes.ReplaceAll(text[last:], []byte("--from=build /out/"), nil)...),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "ca-certificates.crt"), 0o644); err != nil { //nolint:gosec // everybody may read it
		t.Fatal(err)
	}
	image = fmt.Sprintf("dispatcher:test-%d", os.Getpid())
	docker(t, "build", "-q", "--build-arg", "VERSION="+imageVersion, "-t", image, dir)
	t.Cleanup(func() {
		if out, err := try(t, "rmi", "-f", image); err != nil {
			t.Logf("docker rmi: %v: %s", err, out)
		}
	})
	binary, err := os.Stat(filepath.Join(dir, "dispatcher"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the binary has %.1f MB", float64(binary.Size())/1e6)
	return image
}

// weigh says what an image weighs, as it lies on a host and packed.
func weigh(t *testing.T, image string) {
	t.Helper()
	size, err := strconv.ParseFloat(docker(t, "image", "inspect", "--format", "{{.Size}}", image), 64)
	if err != nil {
		t.Fatal(err)
	}
	save := exec.CommandContext(t.Context(), "docker", "save", image)
	out, err := save.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var packed counter
	pack := gzip.NewWriter(&packed)
	if err := save.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(pack, out); err != nil {
		t.Fatal(err)
	}
	if err := pack.Close(); err != nil {
		t.Fatal(err)
	}
	if err := save.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("the image has %.1f MB, and %.1f MB packed", size/1e6, float64(packed)/1e6)
	if size > imageMost {
		t.Errorf("the image has %.0f bytes, want %d at most", size, int64(imageMost))
	}
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// pod is a node in a container.
type pod struct{ id, admin string }

// run starts a container with a node, as the manifests do, and waits until the node is ready. It has the host's network, since
// the servers' ports are on loopback.
func (s *scene) run(t *testing.T, image string) *pod {
	t.Helper()
	p := &pod{admin: freeAddr(t)}
	began := time.Now()
	p.id = docker(t, append([]string{
		"run", "--detach", "--network", "host", "--read-only", "--user", imageUser, "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
		"--env", "DISPATCHER_ADMIN_LISTEN=" + p.admin, "--env", "DISPATCHER_NODE=pod-" + p.admin[strings.LastIndexByte(p.admin, ':')+1:],
		image, "run",
	}, s.common()...)...)
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := try(t, "logs", "--tail", "20", p.id)
			t.Logf("the node at %s said:\n%s", p.admin, log)
		}
		if out, err := try(t, "rm", "-f", p.id); err != nil {
			t.Logf("docker rm: %v: %s", err, out)
		}
	})
	var last string
	eventually(t, time.Minute, func() bool {
		last = p.ready(t)
		return last == ""
	}, func() string { return "the node is not ready: " + last })
	begun, err := time.Parse(time.RFC3339Nano, docker(t, "inspect", "--format", "{{.State.StartedAt}}", p.id))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ready %v after the process began, and %v after docker run", time.Since(begun).Round(10*time.Millisecond), time.Since(began).Round(10*time.Millisecond))
	return p
}

// ready returns why the node is not ready; empty: it is.
func (p *pod) ready(t *testing.T) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.admin+"/readyz", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode == http.StatusOK {
		return ""
	}
	return string(text)
}

// healthy waits until Docker has run the image's own health check, and runs it once more for readiness.
func (p *pod) healthy(t *testing.T) {
	t.Helper()
	state := ""
	eventually(t, time.Minute, func() bool {
		state = docker(t, "inspect", "--format", "{{.State.Health.Status}}", p.id)
		return state == "healthy"
	}, func() string { return "Docker says that the node is " + state })
	if got := docker(t, "exec", p.id, "dispatcher", "healthcheck", "--ready"); got != "ok" {
		t.Errorf("got %q, want ok", got)
	}
	out, err := try(t, "exec", "--env", "DISPATCHER_ADMIN_LISTEN=127.0.0.1:1", p.id, "dispatcher", "healthcheck")
	if err == nil || !strings.Contains(out, "healthcheck: no answer") {
		t.Errorf("got %q, %v for a port that nobody has, want an error", out, err)
	}
}

// memory is what Docker counts for the container, without the cache of files.
func (p *pod) memory(t *testing.T) string {
	t.Helper()
	used, _, _ := strings.Cut(docker(t, "stats", "--no-stream", "--format", "{{.MemUsage}}", p.id), " / ")
	return used
}

// stop ends the node as an orchestrator does. It must end by itself, with status 0.
func (p *pod) stop(t *testing.T) {
	t.Helper()
	docker(t, "stop", "-t", "30", p.id)
	if code := docker(t, "inspect", "--format", "{{.State.ExitCode}}", p.id); code != "0" {
		t.Errorf("the node at %s ended with status %s after SIGTERM", p.admin, code)
	}
}
