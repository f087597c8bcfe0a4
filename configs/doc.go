// Package configs holds what can be set, what it is when nobody sets it, and
// how it is read.
//
// default.yaml, which is built in, is the only place a default is written down.
// Over it go, in this order, the file the user names, DISPATCHER_ variables of
// the environment and --set path=value; the last one that speaks wins. [Load]
// returns the result, and [Config.Validate] says everything that is wrong with
// its values. [Check] does both, and says all of it at once.
//
// It does not connect to anything, and it does not hold the limit that is in
// force: that lives in Redis, and the file only seeds it.
//
// # How it works
//
// The struct [Config] is read by reflection into a list of keys. Each source is
// checked against that list before it is merged, so that an unknown key, or a
// number where text is wanted, is an error that names the key and the source:
// a misspelt setting must not be a setting silently left at its default. viper
// merges the sources and fills the struct.
//
// # Secrets
//
// Text may hold ${env:NAME} and ${file:/path}. Load replaces them and keeps in
// mind what was written, so that [Config.Redacted] and all errors show the
// reference and never what it stands for. A secret written out in the file is
// shown as [redacted].
//
// # Goroutines and failure
//
// There are no goroutines. Load fails on what it can't read or doesn't know;
// it does not check whether the values make sense together. Validate does. Check
// goes on past what it can't read, with the value that the setting has without it,
// and says nothing of that value.
package configs
