// Package reach connects to the servers of a configuration, for `config check --connect`. It sends
// no job and changes nothing. It starts no goroutine.
package reach
