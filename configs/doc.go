// Package configs reads the settings: the defaults, a file, the environment and the
// command line.
//
// default.yaml, which is built in, holds the defaults of a node. The options of package
// consumer have defaults of their own, for callers without a file. Over default.yaml go,
// in this order, the user's file, DISPATCHER_ variables of the environment and --set
// path=value; the last source that names a key wins. [Load] returns the result, [Config.Validate] returns everything that is wrong with its
// values, and [Check] does both.
//
// The package that uses a section declares its keys and checks their values
// (consumer.Config, sender.Config, dedup.Config, admin.Config, tlsfiles.Settings).
// This package checks only what concerns two sections.
//
// It does not connect to anything, and it does not hold the limit that is in
// force: that lives in Redis, and the file only seeds it.
//
// # How it works
//
// The yaml tags of [Config] are the list of keys. Each source is compared with it
// before the sources are merged. So an unknown key, or a number where text is
// wanted, is an error that names the key and the source, and a misspelt setting is
// never left at its default silently. viper merges the sources and fills the struct.
//
// # Secrets
//
// Text may hold ${env:NAME} and ${file:/path}. Load replaces these references and
// remembers them. [Config.Redacted] and all errors show the reference and never its
// value. A secret that is written out in the file is shown as [redacted].
//
// # Goroutines and failure
//
// There are no goroutines. Load fails on everything it can't read or doesn't know;
// it does not check whether the values make sense together. Check continues past a
// value that it can't read. It keeps the value of the earlier source, and reports
// nothing more about that setting.
package configs
