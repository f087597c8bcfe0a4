package configs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dispatcher/configs"
)

func TestReferencesAreReplaced(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("from-file\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ text, want string }{
		{"plain", "plain"},
		{"${env:A}", "one"},
		{"x${env:A}y${env:B}z", "xoney${env:A}z"}, // what a reference yields is not looked through
		{"${file:" + secret + "}", "from-file"},
		{"$${env:A}", "${env:A}"},
		{"cost $5", "cost $5"},
		{"${env:EMPTY}", ""},
	} {
		c := load(t, configs.Source{
			Set:     []string{"redis.password=" + row.text},
			Environ: environ("A=one", "B=${env:A}", "EMPTY="),
		})
		if c.Redis.Password != row.want {
			t.Errorf("%s: got %q, want %q", row.text, c.Redis.Password, row.want)
		}
	}
}

func TestShownConfigHoldsNoSecret(t *testing.T) {
	t.Parallel()
	src := configs.Source{
		File: write(t, `
kafka: {sasl: {username: bob, password: hunter2}}
redis: {password: "x-hunter2-${env:SECRET}", username: "${env:USER}"}
sender:
  http:
    url: "https://example.com/send?api_key=hunter2&from=me"
    headers: {Authorization: "Bearer ${env:SECRET}", X-Api-Key: hunter2, X-Plain: seen}
`),
		Environ: environ("SECRET=hunter2-env", "USER=alice"),
	}
	c := load(t, src)
	for name, render := range map[string]func() ([]byte, error){"yaml": c.YAML, "json": c.JSON} {
		out, err := render()
		if err != nil {
			t.Fatal(err)
		}
		text := string(out)
		if strings.Contains(text, "hunter2") || strings.Contains(text, "alice") {
			t.Errorf("%s shows a secret or what a reference stands for:\n%s", name, text)
		}
		for _, want := range []string{"${env:SECRET}", "${env:USER}", "bob", "seen", "from=me", "[redacted]"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not show %s:\n%s", name, want, text)
			}
		}
	}
	if c.Kafka.SASL.Password != "hunter2" || c.Sender.HTTP.Headers["authorization"] != "Bearer hunter2-env" {
		t.Error("showing the config has changed it")
	}
}

func TestFaultsShowReferencesOnly(t *testing.T) {
	t.Parallel()
	c := load(t, configs.Source{
		Set:     []string{"redis.namespace=${env:SECRET}", "redis.addrs=${env:SECRET}"},
		Environ: environ("SECRET={hunter2}"),
	})
	err := c.Validate()
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "redis.namespace: ${env:SECRET}") {
		t.Errorf("got %v, want the fault with the reference", err)
	}
}

func TestTLSFilesAreNamed(t *testing.T) {
	t.Parallel()
	if built, err := (configs.TLS{}).Build(); built != nil || err != nil {
		t.Errorf("disabled: got %v, %v, want nothing", built, err)
	}
	if built, err := (configs.TLS{Enabled: true, ServerName: "a"}).Build(); err != nil || built.ServerName != "a" || built.RootCAs != nil {
		t.Errorf("enabled: got %v, %v", built, err)
	}
	for name, bad := range map[string]configs.TLS{
		"ca_file":   {Enabled: true, CAFile: "default.yaml"},
		"stat none": {Enabled: true, CAFile: "none"},
		"cert_file": {Enabled: true, CertFile: "none", KeyFile: "none"},
	} {
		if _, err := bad.Build(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want it to name %s", err, name)
		}
	}
}
