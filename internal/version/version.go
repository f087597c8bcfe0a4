// Package version says which build of the program this is.
package version

import (
	"runtime/debug"
	"strings"
)

// release is the version of a release. deploy/build.sh passes it to the linker; in other builds it is empty.
var release string //nolint:gochecknoglobals // the linker can set nothing else

// Text is the version of the release, or the module's version or the commit that the program was built from.
func Text() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if release != "" {
		return release + " " + info.GoVersion
	}
	text := info.Main.Version
	if text == "" || text == "(devel)" {
		text = "devel"
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" && !strings.Contains(text, setting.Value[:min(12, len(setting.Value))]) {
			text += " " + setting.Value
		}
	}
	return text + " " + info.GoVersion
}
