// Package lua holds the scripts that run inside Redis, one command a file, and
// nothing else. Package throttle runs them and is the only one that knows the
// order of their arguments and replies.
//
// Rules for a script: a header that names its KEYS, ARGV and reply (a test
// compares it with the body); Redis's own clock; integers in microseconds
// across the wire; no key that is not in KEYS; O(1).
package lua

import _ "embed"

// Book gives a node the next slots of a limit.
//
//go:embed book.lua
var Book string

// Configure changes a limit's settings.
//
//go:embed configure.lua
var Configure string
