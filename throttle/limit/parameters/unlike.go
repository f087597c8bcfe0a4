package parameters

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"

	"dispatcher/throttle/limit"
)

// UnlikeFile are the terms of which a file states another value than Redis holds. A pause and exceptions stand in no file, and
// guardrails are no terms.
func UnlikeFile(file, redis limit.Settings) []Parameter {
	return slices.DeleteFunc(Differences(file, redis), func(p Parameter) bool { return p.Kind != Term && p.Kind != Fixed })
}

// WarnOfFile logs where Redis holds other terms than the file, and what ends the difference.
func WarnOfFile(log *slog.Logger, file, redis limit.Settings) {
	var differ []any
	remedy := "change the file, or use limit set"
	for _, p := range UnlikeFile(file, redis) {
		differ = append(differ, slog.String(p.Name, fmt.Sprintf("%s, and %s in the file", cmp.Or(p.Display(redis), "none"), cmp.Or(p.Display(file), "none"))))
		if p.Kind == Fixed {
			remedy = "change the file, or stop the fleet and delete the limit"
		}
	}
	if len(differ) > 0 {
		log.Warn("redis holds other settings than the file, and those in redis are in force", append(differ, slog.String("remedy", remedy))...)
	}
}
