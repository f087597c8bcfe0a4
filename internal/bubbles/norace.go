//go:build !race

package bubbles

func narrow() (restore func()) { return func() {} }
