// Package lua holds the scripts that run inside Redis, and nothing else. The
// packages that run them (throttle, internal/dedup for dedup.lua and
// internal/fleet for register.lua) are the only ones that know the order of their
// arguments and replies.
//
// A script is joined from parts: limit.lua, which all have in front, the
// algorithm where there is one, and the command itself. A part whose first line
// is "-- with other.lua" has that one in front.
//
// Rules for a script: a header that names its KEYS, ARGV and reply (a test
// compares it with the body); Redis's own clock; integers in microseconds
// across the wire; no key that is not in KEYS; work that does not grow with the
// rate.
package lua

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed *.lua algorithms/*.lua
var files embed.FS

// Book gives a node what it may use next of a limit, by one of [Algorithms]. It
// panics where there is no such algorithm.
func Book(algorithm string) string {
	return join("limit.lua", "algorithms/"+algorithm+".lua", "book.lua")
}

// Configure changes a limit's settings.
func Configure() string { return join("limit.lua", "configure.lua") }

// Delete deletes a limit that no node uses.
func Delete() string { return join("limit.lua", "delete.lua") }

// CLThrottle answers as redis-cell's CL.THROTTLE does.
func CLThrottle() string { return join("cl_throttle.lua") }

// Share lends a node a share of the reserve.
func Share() string { return join("limit.lua", "share.lua") }

// Lateness takes in how late slots were, and gives the fleet's counts.
func Lateness() string { return join("limit.lua", "lateness.lua") }

// Register keeps the nodes of a Kafka group to one limit.
func Register() string { return join("register.lua") }

// Dedup keeps the dedup store.
func Dedup() string { return join("dedup.lua") }

func join(names ...string) string {
	var script strings.Builder
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			panic(fmt.Sprintf("lua: %v", err)) // a name that the program itself got wrong
		}
		first, _, _ := strings.Cut(string(text), "\n")
		if other, ok := strings.CutPrefix(first, "-- with "); ok {
			script.WriteString(join(other))
		}
		script.Write(text)
	}
	return script.String()
}
