package tlsfiles_test

import (
	"strings"
	"testing"

	"dispatcher/internal/tlsfiles"
)

func TestTLSFilesAreNamed(t *testing.T) {
	t.Parallel()
	if built, err := (tlsfiles.Settings{}).Open(nil); built != nil || err != nil {
		t.Errorf("disabled: got %v, %v, want nothing", built, err)
	}
	if built, err := (tlsfiles.Settings{Enabled: true, ServerName: "a"}).Open(nil); err != nil || built.Config().ServerName != "a" || built.Config().RootCAs != nil {
		t.Errorf("enabled: got %v, %v", built, err)
	}
	for name, bad := range map[string]tlsfiles.Settings{
		"ca_file":   {Enabled: true, CAFile: "settings.go"},
		"stat none": {Enabled: true, CAFile: "none"},
		"cert_file": {Enabled: true, CertFile: "none", KeyFile: "none"},
	} {
		if _, err := bad.Open(nil); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want it to name %s", err, name)
		}
	}
}
