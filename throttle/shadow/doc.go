// Package shadow proves that the limiter's scripts limit on a Redis. It asks them for more units than
// a small limit has, and counts how many they grant in a window.
//
// The limit has keys of its own, below "dispatcher:{<namespace>}:check:". They have a time to live,
// and are deleted at the end. No limit of the fleet is read or changed, and no call is made.
//
// It does not look at settings: package internal/setupcheck does. It starts no goroutine.
package shadow
