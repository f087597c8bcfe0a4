package kubernetes_test

import (
	"context"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"dispatcher/admin"
	"dispatcher/configs"
)

// fleet are the objects, as the files have them.
type fleet struct {
	Kustomization kustomization
	Account       corev1.ServiceAccount
	Deployment    appsv1.Deployment
	Service       corev1.Service
	Budget        policyv1.PodDisruptionBudget
	Policy        networkingv1.NetworkPolicy
	Secret        corev1.Secret
}

// kustomization is the part of kustomize's own type that the files use.
type kustomization struct {
	metav1.TypeMeta    `json:",inline"`
	Resources          []string `json:"resources"`
	ConfigMapGenerator []struct {
		Name  string   `json:"name"`
		Files []string `json:"files"`
	} `json:"configMapGenerator"`
	Images []struct {
		Name    string `json:"name"`
		NewName string `json:"newName"`
		NewTag  string `json:"newTag"`
	} `json:"images"`
	Patches []struct {
		Target struct {
			Kind string `json:"kind"`
			Name string `json:"name"`
		} `json:"target"`
		Patch string `json:"patch"`
	} `json:"patches"`
}

// decode reads an object strictly: an unknown field is an error. It holds the object to its kind.
func decode(t *testing.T, path, version, kind string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	got := reflect.ValueOf(into).Elem().FieldByName("TypeMeta").Interface().(metav1.TypeMeta)
	if want := (metav1.TypeMeta{APIVersion: version, Kind: kind}); got != want {
		t.Fatalf("%s: got %+v, want %+v", path, got, want)
	}
}

func load(t *testing.T) (f fleet) {
	t.Helper()
	decode(t, "base/kustomization.yaml", "kustomize.config.k8s.io/v1beta1", "Kustomization", &f.Kustomization)
	decode(t, "base/serviceaccount.yaml", "v1", "ServiceAccount", &f.Account)
	decode(t, "base/deployment.yaml", "apps/v1", "Deployment", &f.Deployment)
	decode(t, "base/service.yaml", "v1", "Service", &f.Service)
	decode(t, "base/poddisruptionbudget.yaml", "policy/v1", "PodDisruptionBudget", &f.Budget)
	decode(t, "base/networkpolicy.yaml", "networking.k8s.io/v1", "NetworkPolicy", &f.Policy)
	decode(t, "secret.example.yaml", "v1", "Secret", &f.Secret)
	return f
}

func (f fleet) pod() corev1.PodSpec { return f.Deployment.Spec.Template.Spec }

func (f fleet) container(t *testing.T) corev1.Container {
	t.Helper()
	if n := len(f.pod().Containers); n != 1 {
		t.Fatalf("got %d containers, want 1", n)
	}
	return f.pod().Containers[0]
}

// mount is where the container finds a volume.
func (f fleet) mount(t *testing.T, volume func(corev1.Volume) bool) string {
	t.Helper()
	v := slices.IndexFunc(f.pod().Volumes, volume)
	if v < 0 {
		t.Fatal("no volume of the pod is it")
	}
	mounts := f.container(t).VolumeMounts
	m := slices.IndexFunc(mounts, func(m corev1.VolumeMount) bool { return m.Name == f.pod().Volumes[v].Name })
	if m < 0 || !mounts[m].ReadOnly {
		t.Fatalf("volume %s: want it mounted, to be read only", f.pod().Volumes[v].Name)
	}
	return mounts[m].MountPath
}

// The kustomizations name every file, so that none is left behind.
func TestEachFileIsUsed(t *testing.T) {
	t.Parallel()
	f := load(t)
	used := append([]string{"kustomization.yaml"}, f.Kustomization.Resources...)
	for _, g := range f.Kustomization.ConfigMapGenerator {
		used = append(used, g.Files...)
	}
	entries, err := os.ReadDir("base")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, e := range entries {
		files = append(files, e.Name())
	}
	slices.Sort(used)
	if !slices.Equal(files, used) {
		t.Errorf("base holds %q, and its kustomization names %q", files, used)
	}
	images := f.Kustomization.Images
	if len(images) != 1 || images[0].Name != f.container(t).Image {
		t.Errorf("kustomization: got images %+v, want that of the container, %q", images, f.container(t).Image)
	}
}

// Each selector selects the pods, and each name of an object that another one states is that object's.
func TestObjectsFindEachOther(t *testing.T) {
	t.Parallel()
	f := load(t)
	labels := f.Deployment.Spec.Template.Labels
	for what, selector := range map[string]map[string]string{
		"deployment": f.Deployment.Spec.Selector.MatchLabels, "service": f.Service.Spec.Selector,
		"budget": f.Budget.Spec.Selector.MatchLabels, "network policy": f.Policy.Spec.PodSelector.MatchLabels,
		"spread over zones": f.pod().TopologySpreadConstraints[0].LabelSelector.MatchLabels,
		"spread over hosts": f.pod().TopologySpreadConstraints[1].LabelSelector.MatchLabels,
	} {
		if len(selector) == 0 || !maps.Equal(selector, labels) {
			t.Errorf("%s: got the selector %v, want the pods' labels %v", what, selector, labels)
		}
	}
	if f.pod().ServiceAccountName != f.Account.Name {
		t.Errorf("got the account %q, want %q", f.pod().ServiceAccountName, f.Account.Name)
	}
	generated := f.Kustomization.ConfigMapGenerator[0].Name
	f.mount(t, func(v corev1.Volume) bool { return v.ConfigMap != nil && v.ConfigMap.Name == generated })
	f.mount(t, func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.SecretName == f.Secret.Name })
}

// config is the configuration as a node reads it, with the files of the example's secret.
func (f fleet) config(t *testing.T) configs.Config {
	t.Helper()
	secrets := f.mount(t, func(v corev1.Volume) bool { return v.Secret != nil })
	here := t.TempDir()
	for name, value := range f.Secret.StringData {
		const shortest = 16 // of a token
		if strings.HasSuffix(name, "-token") && len(value) >= shortest {
			t.Errorf("%s: the example has a token that everybody knows, and a node would take it", name)
		}
		if err := os.WriteFile(filepath.Join(here, name), []byte(value+"-"+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile("base/dispatcher.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name := range f.Secret.StringData {
		if !strings.Contains(string(text), secrets+"/"+name) {
			t.Errorf("no setting reads %s of the example's secret", name)
		}
	}
	file := filepath.Join(here, "dispatcher.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), secrets, here)), 0o600); err != nil {
		t.Fatal(err)
	}
	// The variables of the container, but the one with the file's path inside.
	var environ []string
	for _, e := range f.container(t).Env {
		environ = append(environ, e.Name+"="+e.Value)
	}
	slices.Sort(environ)
	c, err := configs.Check(configs.Source{File: file, Environ: func() []string { return environ }}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTheConfigurationIsSound(t *testing.T) {
	t.Parallel()
	f := load(t)
	c := f.config(t)
	mount := f.mount(t, func(v corev1.Volume) bool { return v.ConfigMap != nil })
	file := mount + "/" + f.Kustomization.ConfigMapGenerator[0].Files[0]
	if !slices.Contains(f.container(t).Env, corev1.EnvVar{Name: "DISPATCHER_CONFIG", Value: file}) {
		t.Errorf("no variable DISPATCHER_CONFIG leads to %s", file)
	}
	stop := c.Kafka.Session - c.Kafka.Heartbeat + time.Second // the drain and the last commit, and the requests' last second
	if grace := time.Duration(*f.pod().TerminationGracePeriodSeconds) * time.Second; grace <= stop || grace <= c.Kafka.Drain {
		t.Errorf("the grace period is %v, want more than the %v that a stop may take", grace, stop)
	}
	// The variables of Services begin as settings do.
	if links := f.pod().EnableServiceLinks; links == nil || *links {
		t.Error("enableServiceLinks must be false: nodes need no variables of Services")
	}
}

// Ports have one name and one number, and the policy lets all through that the configuration names.
func TestPortsMatch(t *testing.T) {
	t.Parallel()
	f := load(t)
	c := f.config(t)
	ports := f.container(t).Ports
	_, listen, err := net.SplitHostPort(c.Admin.Listen)
	if err != nil {
		t.Fatal(err)
	}
	if len(ports) != 1 || strconv.Itoa(int(ports[0].ContainerPort)) != listen {
		t.Fatalf("got the ports %+v, want %s of admin.listen", ports, listen)
	}
	name := intstr.FromString(ports[0].Name)
	if s := f.Service.Spec.Ports; len(s) != 1 || s[0].TargetPort != name {
		t.Errorf("service: got %+v, want the port %s", s, name.StrVal)
	}
	if in := f.Policy.Spec.Ingress; len(in) != 1 || len(in[0].Ports) != 1 || *in[0].Ports[0].Port != name {
		t.Errorf("network policy: got %+v, want the port %s", in, name.StrVal)
	}
	open := map[string]bool{}
	for _, rule := range f.Policy.Spec.Egress {
		for _, p := range rule.Ports {
			open[p.Port.String()] = true
		}
	}
	needed := map[string]string{"the provider": "443"}
	if u, err := url.Parse(c.Sender.HTTP.URL); err != nil || u.Scheme != "https" || u.Port() != "" {
		t.Errorf("got the URL %s, want https on its own port", c.Sender.HTTP.URL)
	}
	for _, addr := range slices.Concat(c.Kafka.Brokers, c.Redis.Addrs) {
		if _, needed[addr], err = net.SplitHostPort(addr); err != nil {
			t.Fatal(err)
		}
	}
	for what, port := range needed {
		if !open[port] {
			t.Errorf("network policy: nodes can't reach %s: port %s is closed", what, port)
		}
	}
	if !slices.Equal(f.Policy.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}) {
		t.Errorf("network policy: got %v, want both directions", f.Policy.Spec.PolicyTypes)
	}
}

// Each probe asks a path that the admin server has, at the container's port. Only /livez may restart a node.
func TestProbesAskWhatIsServed(t *testing.T) {
	t.Parallel()
	c := load(t).container(t)
	server, err := admin.New(admin.Options{Config: admin.Config{Listen: "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	for name, probe := range map[string]*corev1.Probe{"startup": c.StartupProbe, "liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
		ask := probe.HTTPGet
		if ask == nil || ask.Port != intstr.FromString(c.Ports[0].Name) {
			t.Errorf("%s: got %+v, want the port %s asked", name, ask, c.Ports[0].Name)
			continue
		}
		if name != "readiness" && ask.Path != "/livez" {
			t.Errorf("%s: got %s, want /livez: a restart does not help against what /readyz says", name, ask.Path)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+server.Addr()+ask.Path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s: got %d, want 200", name, ask.Path, resp.StatusCode)
		}
	}
	if c.ReadinessProbe.HTTPGet.Path != "/readyz" || c.ReadinessProbe.TimeoutSeconds <= 2 {
		t.Errorf("got %+v, want /readyz asked for longer than its checks take, which is 2 s", c.ReadinessProbe)
	}
}

// The pods keep to the restricted standard, write to no file, and run as the image's user.
func TestPodsAreRestricted(t *testing.T) {
	t.Parallel()
	f := load(t)
	pod, own := f.pod().SecurityContext, f.container(t).SecurityContext
	if !*pod.RunAsNonRoot || pod.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("got %+v, want no root, and the usual seccomp profile", pod)
	}
	if *own.AllowPrivilegeEscalation || !*own.ReadOnlyRootFilesystem || !slices.Equal(own.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(own.Capabilities.Add) > 0 {
		t.Errorf("got %+v, want nothing that can be written to, and no capability", own)
	}
	if *f.Account.AutomountServiceAccountToken || *f.pod().AutomountServiceAccountToken {
		t.Error("a token for the cluster's API is mounted, and no node uses one")
	}
	image, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	user := strconv.FormatInt(*pod.RunAsUser, 10)
	if want := "\nUSER " + user + ":" + user + "\n"; !strings.Contains(string(image), want) || *pod.RunAsGroup != *pod.RunAsUser || *pod.FSGroup != *pod.RunAsUser {
		t.Errorf("the pods run as %s, and the image has no line %q", user, want)
	}
	limits := f.container(t).Resources.Limits
	memory := limits.Memory().Value()
	for _, e := range f.container(t).Env {
		if e.Name != "GOMEMLIMIT" {
			continue
		}
		mib, err := strconv.ParseInt(strings.TrimSuffix(e.Value, "MiB"), 10, 64)
		if err != nil || mib<<20 < memory*8/10 || mib<<20 > memory*95/100 {
			t.Errorf("GOMEMLIMIT: got %s, want about nine tenths of %d bytes", e.Value, memory)
		}
	}
	if !limits.Cpu().IsZero() {
		t.Error("a bound for the CPU makes slots late")
	}
}

// scaledObject is the part of KEDA's own type that the overlay uses.
type scaledObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		ScaleTargetRef  struct{ Name string } `json:"scaleTargetRef"`
		MinReplicaCount int32                 `json:"minReplicaCount"`
		MaxReplicaCount int32                 `json:"maxReplicaCount"`
		PollingInterval int32                 `json:"pollingInterval"`
		Fallback        struct {
			FailureThreshold int32  `json:"failureThreshold"`
			Replicas         int32  `json:"replicas"`
			Behavior         string `json:"behavior"`
		} `json:"fallback"`
		Advanced struct {
			HorizontalPodAutoscalerConfig struct {
				Behavior autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior"`
			} `json:"horizontalPodAutoscalerConfig"`
		} `json:"advanced"`
		Triggers []struct {
			Type       string                         `json:"type"`
			MetricType autoscalingv2.MetricTargetType `json:"metricType"`
			Metadata   struct {
				ServerAddress string `json:"serverAddress"`
				Threshold     string `json:"threshold"`
				Query         string `json:"query"`
			} `json:"metadata"`
		} `json:"triggers"`
	} `json:"spec"`
}

// The overlay scales the base's Deployment alone, never below its number of nodes, and asks for metrics that there are.
func TestTheScalerLooksAtLagAndLimit(t *testing.T) {
	t.Parallel()
	f := load(t)
	var k kustomization
	var s scaledObject
	decode(t, "autoscaled/kustomization.yaml", "kustomize.config.k8s.io/v1beta1", "Kustomization", &k)
	decode(t, "autoscaled/scaledobject.yaml", "keda.sh/v1alpha1", "ScaledObject", &s)
	if !slices.Equal(k.Resources, []string{"../base", "scaledobject.yaml"}) {
		t.Errorf("got the resources %q", k.Resources)
	}
	if len(k.Patches) != 1 || k.Patches[0].Target.Name != f.Deployment.Name || k.Patches[0].Target.Kind != "Deployment" || !strings.Contains(k.Patches[0].Patch, "{op: remove, path: /spec/replicas}") {
		t.Errorf("got %+v, want the Deployment's number of nodes removed", k.Patches)
	}
	if s.Spec.ScaleTargetRef.Name != f.Deployment.Name || s.Spec.MinReplicaCount != *f.Deployment.Spec.Replicas || s.Spec.MaxReplicaCount <= s.Spec.MinReplicaCount {
		t.Errorf("got %+v, want the Deployment scaled upwards from its own number", s.Spec)
	}
	if down := s.Spec.Advanced.HorizontalPodAutoscalerConfig.Behavior.ScaleDown; down == nil || len(down.Policies) != 1 || down.Policies[0].Value != 1 {
		t.Errorf("got %+v, want one node at a time to leave", down)
	}
	if len(s.Spec.Triggers) != 1 || s.Spec.Triggers[0].MetricType != autoscalingv2.AverageValueMetricType {
		t.Fatalf("got the triggers %+v, want one", s.Spec.Triggers)
	}
	reference, err := os.ReadFile("../../docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	asked := regexp.MustCompile(`dispatcher_(\w+)`).FindAllStringSubmatch(s.Spec.Triggers[0].Metadata.Query, -1)
	var names []string
	for _, m := range asked {
		names = append(names, m[1])
		if !strings.Contains(string(reference), "\n| `"+m[1]) {
			t.Errorf("docs/reference.md has no metric %s", m[1])
		}
	}
	for _, want := range []string{"consumer_lag_records", "limit_binds_ratio", "limit_waiting_jobs"} {
		if !slices.Contains(names, want) {
			t.Errorf("the query asks for %q, want it to ask for %s", names, want)
		}
	}
}
