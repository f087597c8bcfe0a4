// Package quota says what a quota is: when its windows begin and end, by a calendar or
// rolling, how many units of a state count, and what a node remembers of it.
//
// It is arithmetic alone: times are arguments, and it starts no goroutine. The cap and the
// key are those of the limit that the quota makes a counter, see package limit.
// lua/reserve/quotas.lua counts by the same rules. A window that can't be reckoned, in a zone
// that this program does not know, has no bounds.
package quota
