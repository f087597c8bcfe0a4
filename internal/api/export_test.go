package api

import (
	"maps"
	"slices"
)

// Patterns are those of all requests that the API serves.
func Patterns() []string { return append(slices.Sorted(maps.Keys((&api{}).routes())), eventsPattern) }
