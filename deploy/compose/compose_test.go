package compose_test

import (
	"bytes"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"dispatcher/configs"
)

// file is the part of the Compose Specification that the file uses.
type file struct {
	Dispatcher any                `yaml:"x-dispatcher"` // what services share, and what they take from it is decoded with them
	Node       any                `yaml:"x-node"`
	Kafka      any                `yaml:"x-kafka"`
	Services   map[string]service `yaml:"services"`
}

type service struct {
	Image string `yaml:"image"`
	Build struct {
		Context    string `yaml:"context"`
		Dockerfile string `yaml:"dockerfile"`
	} `yaml:"build"`
	Hostname    string            `yaml:"hostname"`
	Entrypoint  []string          `yaml:"entrypoint"`
	Command     []string          `yaml:"command"`
	Environment map[string]string `yaml:"environment"`
	Volumes     []string          `yaml:"volumes"`
	Ports       []string          `yaml:"ports"`
	ReadOnly    bool              `yaml:"read_only"`
	CapDrop     []string          `yaml:"cap_drop"`
	SecurityOpt []string          `yaml:"security_opt"`
	Restart     string            `yaml:"restart"`
	StopGrace   time.Duration     `yaml:"stop_grace_period"`
	DependsOn   dependencies      `yaml:"depends_on"`
	Healthcheck struct {
		Disable  bool          `yaml:"disable"`
		Test     []string      `yaml:"test"`
		Interval time.Duration `yaml:"interval"`
		Retries  int           `yaml:"retries"`
	} `yaml:"healthcheck"`
}

// dependencies are names, with or without a condition.
type dependencies map[string]string

func (d *dependencies) UnmarshalYAML(node *yaml.Node) error {
	*d = dependencies{}
	var names []string
	if node.Decode(&names) == nil {
		for _, name := range names {
			(*d)[name] = ""
		}
		return nil
	}
	var conditions map[string]map[string]string
	if err := node.Decode(&conditions); err != nil {
		return err
	}
	for name, c := range conditions {
		if len(c) != 1 || c["condition"] == "" {
			return errors.New("depends_on: " + name + " has not one condition")
		}
		(*d)[name] = c["condition"]
	}
	return nil
}

func load(t *testing.T) (f file) {
	t.Helper()
	text, err := os.ReadFile("../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	in := yaml.NewDecoder(bytes.NewReader(text))
	in.KnownFields(true)
	if err := in.Decode(&f); err != nil {
		t.Fatal(err)
	}
	return f
}

// nodes are the services that run a node, by name.
func (f file) nodes() (names []string) {
	for name := range f.Services {
		if strings.HasPrefix(name, "node-") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func config(t *testing.T) configs.Config {
	t.Helper()
	c, err := configs.Check(configs.Source{File: "dispatcher.yaml"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Nothing asks for a password, so nothing may be reached from elsewhere.
func TestPortsAreOnLoopbackAlone(t *testing.T) {
	t.Parallel()
	taken := map[string]string{}
	for name, s := range load(t).Services {
		for _, p := range s.Ports {
			parts := strings.Split(p, ":")
			if len(parts) != 3 || parts[0] != "127.0.0.1" {
				t.Errorf("%s: %s is not published on 127.0.0.1 alone", name, p)
			}
			if other := taken[parts[1]]; other != "" {
				t.Errorf("%s and %s have the port %s", name, other, parts[1])
			}
			taken[parts[1]] = name
		}
	}
}

// Each image has a public default, and a variable that names another. Each file that is mounted is there, and is only read.
func TestImagesAndFiles(t *testing.T) {
	t.Parallel()
	named := regexp.MustCompile(`^\$\{[A-Z]+_IMAGE:-[a-z0-9./-]+:[a-z0-9.]+\}$`)
	for name, s := range load(t).Services {
		if !named.MatchString(s.Image) {
			t.Errorf("%s: the image %q is not ${NAME_IMAGE:-image:tag}", name, s.Image)
		}
		for _, v := range s.Volumes {
			parts := strings.Split(v, ":")
			if len(parts) != 3 || parts[2] != "ro" {
				t.Errorf("%s: %s is not mounted to be read only", name, v)
			}
			if _, err := os.Stat(filepath.Join("..", parts[0])); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for other := range s.DependsOn {
			if _, ok := load(t).Services[other]; !ok {
				t.Errorf("%s waits for %s, which is no service", name, other)
			}
		}
	}
}

// The nodes find the servers and the provider under the names that the services have, and the provider judges by the nodes' limit.
func TestTheServicesFitTheConfiguration(t *testing.T) {
	t.Parallel()
	f, c := load(t), config(t)
	u, err := url.Parse(c.Sender.HTTP.URL)
	if err != nil {
		t.Fatal(err)
	}
	listening := map[string]string{"kafka": "9092", "redis": "6379", "provider": "9800"}
	for _, addr := range slices.Concat(c.Kafka.Brokers, c.Redis.Addrs, []string{u.Host}) {
		host, port, err := net.SplitHostPort(addr)
		if _, ok := f.Services[host]; !ok || err != nil || listening[host] != port {
			t.Errorf("%s is no service that listens there", addr)
		}
	}
	limit := c.Limits[0]
	judge := strings.Join(f.Services["provider"].Command, " ")
	for _, want := range []string{"provider --listen 0.0.0.0:9800", "--cap " + strconv.FormatInt(limit.Cap, 10) + " ", "--window " + limit.Window.String()} {
		if !strings.Contains(judge, want) {
			t.Errorf("the provider runs %q, want %q in it", judge, want)
		}
	}
	broker, err := os.ReadFile("kafka.properties")
	if err != nil {
		t.Fatal(err)
	}
	if want := "advertised.listeners=CLIENT://" + c.Kafka.Brokers[0] + "\n"; !strings.Contains(string(broker), want) {
		t.Errorf("kafka.properties has no line %q", want)
	}
	for _, name := range []string{"topics", "producer"} {
		if run := strings.Join(f.Services[name].Command, " "); !strings.Contains(run, "--topic "+c.Kafka.Topics[0]+" ") {
			t.Errorf("%s runs %q, want the topic %s in it", name, run, c.Kafka.Topics[0])
		}
	}
}

func TestTheNodesAreOfOneKind(t *testing.T) {
	t.Parallel()
	f, c := load(t), config(t)
	_, listen, err := net.SplitHostPort(c.Admin.Listen)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(f.nodes()); n != 3 {
		t.Fatalf("got %d nodes, want 3", n)
	}
	scraped, err := os.ReadFile("../prometheus/prometheus.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range f.nodes() {
		s := f.Services[name]
		if target := `"` + name + ":" + listen + `"`; !strings.Contains(string(scraped), target) {
			t.Errorf("%s: Prometheus does not scrape %s", name, target)
		}
		if s.Hostname != name {
			t.Errorf("%s: got the host name %q, want its own", name, s.Hostname)
		}
		if len(s.Ports) != 1 || !strings.HasSuffix(s.Ports[0], ":"+listen) {
			t.Errorf("%s: got the ports %q, want that of admin.listen", name, s.Ports)
		}
		if s.StopGrace <= c.Kafka.Session-c.Kafka.Heartbeat {
			t.Errorf("%s: the grace period of %v is not longer than a stop may take", name, s.StopGrace)
		}
		if file := s.Environment["DISPATCHER_CONFIG"]; !slices.Contains(s.Volumes, "./compose/dispatcher.yaml:"+file+":ro") {
			t.Errorf("%s: %s is not mounted", name, file)
		}
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) {
			t.Errorf("%s: got read_only %v and cap_drop %v, want nothing to write to, and no capability", name, s.ReadOnly, s.CapDrop)
		}
		if s.DependsOn["topics"] != "service_completed_successfully" || s.DependsOn["redis"] != "service_healthy" {
			t.Errorf("%s waits for %v, want its topic and Redis", name, s.DependsOn)
		}
	}
}
