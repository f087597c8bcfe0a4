// Package configcmd is `dispatcher config`: it checks the settings, says what they amount to,
// and shows those in effect.
//
// The settings are checked by configs and the packages that own them. Only --connect
// connects to servers. It starts no goroutine.
package configcmd
