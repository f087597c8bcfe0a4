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

func TestShownURLHoldsNoSecret(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ url, want string }{
		{"https://example.com/send?from=me", "https://example.com/send?from=me"},
		{"https://example.com/?pass=hunter2&from=me", "https://example.com/?from=me&pass=%5Bredacted%5D"},
		{"https://example.com/?PWD=hunter2&pwd=hunter2", "https://example.com/?PWD=%5Bredacted%5D&pwd=%5Bredacted%5D"},
		{"https://example.com/?sig=hunter2", "https://example.com/?sig=%5Bredacted%5D"},
		{"https://example.com/?client_secret=hunter2", "https://example.com/?client_secret=%5Bredacted%5D"},
		{"https://example.com/?token=hunter2", "https://example.com/?token=%5Bredacted%5D"},
		{"https://example.com/?key=hunter2&key=hunter2", "https://example.com/?key=%5Bredacted%5D&key=%5Bredacted%5D"},
		{"https://example.com/?a=1;pass=hunter2", "https://example.com/"},
		{"bob:hunter2@example.com", "[redacted]"},
		{"https://example.com/?key=${env:KEY}", "https://example.com/?key=${env:KEY}"},
		{"https://example.com/?pass=hunter2&from=${env:KEY}", "https://example.com/?from=%24%7Benv%3AKEY%7D&pass=%5Bredacted%5D"},
		{"https://${env:KEY}/send", "https://${env:KEY}/send"},
		{"https://bob:hunter2@${env:KEY}/send", "[redacted]${env:KEY}[redacted]"},
	} {
		c := load(t, configs.Source{Set: []string{"sender.http.url=" + row.url}, Environ: environ("KEY=hunter2-env")})
		if got := c.Redacted().Sender.HTTP.URL; got != row.want {
			t.Errorf("%s: got %s, want %s", row.url, got, row.want)
		}
		if err := c.Validate(); err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v, which shows the secret", row.url, err)
		}
	}
}

func TestAddressesThatHoldCredentialsAreNotShown(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"redis.addrs", "kafka.brokers", "admin.listen"} {
		for _, address := range []string{
			"redis://:hunter2@h:6379", "hunter2@h:6379", "h:6379/0?password=hunter2", "redis://:hunter2@${env:HOST}:6379",
		} {
			c := load(t, configs.Source{Set: []string{key + "=" + address}, Environ: environ("HOST=h")})
			err := c.Validate()
			if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), "[redacted]") {
				t.Errorf("%s=%s: got %v, want a fault that does not show it", key, address, err)
			}
			out, err := c.YAML()
			if err != nil || strings.Contains(string(out), "hunter2") {
				t.Errorf("%s=%s: got %v and\n%s", key, address, err, out)
			}
		}
	}
}

func TestFaultsOfHeadersShowReferencesOnly(t *testing.T) {
	t.Parallel()
	c := load(t, configs.Source{
		Set:     []string{"sender.http.headers.x-key=hunter1${env:SECRET}"},
		Environ: environ("SECRET=hunter2\n"),
	})
	err := c.Validate()
	if err == nil || strings.Contains(err.Error(), "hunter") || !strings.Contains(err.Error(), "sender.http.headers.x-key: [redacted]${env:SECRET}: holds a line break") {
		t.Errorf("got %v, want the fault with the reference alone", err)
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

// Text around the references of a secret is a part of the secret. A list shows the
// references of its entries.
func TestFaultsShowNoPartOfASecret(t *testing.T) {
	t.Parallel()
	c := load(t, configs.Source{
		Set: []string{
			"redis.sentinel_password=hunter2${env:SECRET}", "kafka.topics=${env:SECRET},b",
			"kafka.lanes.0.name=a", "kafka.lanes.0.topics=x", "kafka.sasl.password=hunter2",
		},
		Environ: environ("SECRET=hunter2"),
	})
	err := c.Validate()
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Fatalf("got %v, want faults that do not show the secret", err)
	}
	for _, want := range []string{
		"redis.sentinel_password: [redacted]${env:SECRET}: ", "kafka.topics: [${env:SECRET} b]: must be empty", "kafka.sasl.password: [redacted]: ",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got\n%v\nwant it to hold %s", err, want)
		}
	}
}

// Who writes a token where its file belongs does not see it again.
func TestATokenInPlaceOfItsFileIsNotShown(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"hunter2-hunter2-hunter2", "${env:SECRET}"} {
		src := configs.Source{
			Set:     []string{"admin.auth.tokens.0.name=anna", "admin.auth.tokens.0.role=operator", "admin.auth.tokens.0.file=" + file},
			Environ: environ("SECRET=hunter2-hunter2-hunter2"),
		}
		if err := load(t, src).Validate(); err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "admin.auth.tokens.0.file: ") {
			t.Errorf("%s: got %v, want a fault that does not show it", file, err)
		}
	}
}
