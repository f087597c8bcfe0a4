// Package parameters is the settings of a limit by their names, as texts. One table lists
// them all: a change and its undo, the flags of limit set, the tables of limit get and the
// history go by it.
//
// It does not say whether settings can be kept: [limit.Terms.Validate] does. It knows no
// Redis and starts no goroutine. A text that is no value is a fault of its parameter.
package parameters
