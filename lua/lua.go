// Package lua holds the scripts that run inside Redis, and nothing else. The
// packages that run them are the only ones that know the order of their arguments
// and replies: throttle, internal/dedup for dedup.lua, internal/fleet for
// register.lua, internal/rules for rules.lua and internal/redrive for redrive.lua.
//
// A script is joined from parts: limit.lua, which the scripts of a limit have in
// front, and the command. A part whose first line is "-- with other.lua" has that
// one in front, which may begin with such a line too. A reservation is joined from
// more: the algorithm, and the files of reserve/. `make lua` lints the scripts as
// they are joined here: joined/ writes them.
//
// Rules for a script: a header that names its KEYS, ARGV and reply (a test
// compares it with the body); Redis's own clock; integers across the wire; no key
// that is not in KEYS; work that does not grow with the rate.
package lua

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed *.lua algorithms/*.lua reserve/*.lua
var files embed.FS

// Reserve grants a node the next units of a limit, by an algorithm of that name,
// which a file in algorithms implements; ahead: it reserves slots ahead of their
// time. It panics where there is no such file.
func Reserve(algorithm, file string, ahead bool) string {
	return fmt.Sprintf("local ALGORITHM, AHEAD = %q, %t\n", algorithm, ahead) + join(
		"limit.lua", "reserve/jobs.lua", "algorithms/"+file+".lua", "master.lua",
		"reserve/call.lua", "reserve/lanes.lua", "reserve/slowdown.lua", "reserve/calls.lua", "reserve/nodes.lua", "reserve/steps.lua", "reserve/cooldown.lua",
		"reserve/gates.lua", "reserve/quotas.lua", "reserve/prepare.lua", "reserve/change.lua", "reserve/pick.lua", "reserve.lua")
}

// Configure changes a limit's settings.
func Configure() string { return join("limit.lua", "configure.lua") }

// Delete deletes a limit that no node uses.
func Delete() string { return join("limit.lua", "delete.lua") }

// Lease leases a part of the reserve to a node.
func Lease() string { return join("limit.lua", "lease.lua") }

// Lateness counts how late slots were, and returns the fleet's counts.
func Lateness() string { return join("limit.lua", "lateness.lua") }

// Feedback counts the calls that the provider refused, and keeps the slowdown that follows.
func Feedback() string { return join("limit.lua", "events.lua", "feedback.lua") }

// Release ends the block of one value of a gate's key.
func Release() string { return join("limit.lua", "events.lua", "release.lua") }

// Register keeps the nodes of a Kafka group to one limit.
func Register() string { return join("register.lua") }

// Rules keeps the rules by which operators cancel and hold jobs.
func Rules() string { return join("events.lua", "rules.lua") }

// Redrive keeps the runs that replay or drop dead letters.
func Redrive() string { return join("events.lua", "redrive.lua") }

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
