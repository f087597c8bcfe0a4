// Package throttle makes every node of a fleet keep one limit together.
package throttle
