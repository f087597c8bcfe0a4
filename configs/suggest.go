package configs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// unknownKey is the error of a path that names no key. It suggests the nearest one.
func unknownKey(path []string) error {
	given := strings.Join(path, ".")
	return unknown("unknown key "+show(given), given, paths())
}

func unknown(what, given string, known []string) error {
	if near := nearest(given, known); near != "" {
		return fmt.Errorf("%s (did you mean %s?)", what, near)
	}
	return errors.New(what)
}

// ourName translates common names of other programs; empty: not known.
func ourName(name string) string {
	switch strings.ToLower(name) {
	case "rate", "rps", "qps", "tps", "limit":
		return "cap"
	case "period", "interval":
		return "window"
	}
	return ""
}

// lastPart splits a path, or the name of a variable, before its last word.
func lastPart(path string) (parent, name string) {
	at := strings.LastIndexByte(path, '.')
	if at < 0 {
		at = strings.LastIndexByte(path, '_')
	}
	return path[:at+1], path[at+1:]
}

// nearest is the candidate with the fewest letters to change, or "" if all differ too
// much.
func nearest(given string, candidates []string) string {
	const longest = 200 // a key is short; don't compare a novel with it
	if len(given) > longest {
		return ""
	}
	parent, name := lastPart(given)
	if meant := ourName(name); meant != "" && slices.Contains(candidates, parent+meant) {
		return parent + meant
	}
	best, least := "", max(1, len(name)/3)+1
	for _, c := range candidates {
		if d := distance(given, c); d < least {
			best, least = c, d
		}
	}
	return best
}

// distance counts the letters to insert, delete or replace, and the neighbours to
// swap (Levenshtein's distance with transpositions).
func distance(a, b string) int {
	older, old, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range old {
		old[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			replace := old[j]
			if a[i] != b[j] {
				replace++
			}
			row[j+1] = min(replace, old[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], older[j-1]+1)
			}
		}
		older, old, row = old, row, older
	}
	return old[len(b)]
}
