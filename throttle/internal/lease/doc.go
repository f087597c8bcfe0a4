// Package lease is a node's part of the reserve: units of the cap that Redis never gives out.
//
// At most MaxNodes nodes lease a part of it, and use that only while Redis is away. Redis gives at
// most Cap − Reserve in any Window + Guard, and each lease at most its units. So the sum keeps the
// cap whatever the timing: nobody needs to know which node is away, or for how long.
//
// The package asks nobody and starts no goroutine. The reserving goroutine of package throttle
// asks Redis for the lease, and gives its slots to jobs.
package lease
