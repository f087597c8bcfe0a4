// Package demo runs a whole fleet in one process on embedded parts, and judges
// it at the provider. It is what `dispatcher demo` shows.
//
// It shows nothing itself: [Run] hands out snapshots, and returns the verdict.
package demo
