//go:build !linux

package wakeup

import "time"

// Wakeup is none.
type Wakeup struct{}

// In does nothing.
func In(time.Duration) Wakeup { return Wakeup{} }

// Free does nothing.
func (Wakeup) Free() {}
