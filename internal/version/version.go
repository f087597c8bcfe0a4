// Package version says which build of the program this is.
package version

import (
	"runtime/debug"
	"strings"
)

// Text is the module's version, or the commit that the program was built from.
func Text() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
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
