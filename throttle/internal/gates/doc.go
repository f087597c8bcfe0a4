// Package gates is what a node knows of the limits after the first: their settings in
// force, how much of a quota is used, and what a call to Redis says of them.
//
// A gate grants nothing by itself. A job gets a slot of the first limit at a time at which
// all its gates let it pass: lua/reserve/gates.lua decides that. This package writes the
// part of the question that is about gates, and learns from the reply.
//
// It talks to nobody and starts no goroutine. [Known.Ask] and [Known.Take] are for the
// reserving goroutine of package throttle, and so is [Known.LargestCost]. [Known.Spacing]
// and [Known.Settings] are for any goroutine.
package gates
