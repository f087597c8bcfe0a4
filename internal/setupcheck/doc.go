// Package setupcheck looks whether the servers, the account and the settings of a fleet fit each other. It
// proves on a shadow key that the limiter limits on this Redis, and says what the set-up lacks: for
// `config check --connect`, and for the log of a node that has just started.
//
// Each check is an entry of one list, with a name. It returns what it found, how bad that is, and the remedy.
// A sound set-up has no findings. A check that can't be made is a finding as well.
//
// Of nodes that start together, one checks what concerns the fleet. Each looks at its own host.
//
// It does not check the settings by themselves: package configs does. It changes no limit and calls nobody. The
// keys that it writes lie below "dispatcher:{<namespace>}:check:" and have a time to live. All but the one that says whose turn it
// is are deleted.
//
// It starts no goroutine.
package setupcheck
