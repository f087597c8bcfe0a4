// Package enqueuecmd is `dispatcher enqueue`: it reads jobs from lines and writes them to Kafka.
//
// The command owns one goroutine, which reads ahead while a batch is written. It ends with
// the command.
package enqueuecmd
