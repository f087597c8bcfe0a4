// Package throttletest gives tests the slots that they need. It runs a limiter only where it says so.
package throttletest
