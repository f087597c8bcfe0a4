// Command mutants shows that the tests protect the laws: it breaks each law on
// purpose, and demands that the law's own test fails.
//
//	go run ./internal/mutants [-area NAME] [-dir ROOT]
//
// A mutation is an entry of internal/mutants/NAME.yaml:
//
//   - law: An expired job gives its slot back.
//     file: internal/node/worker/visit.go     # from the module's root
//     old: t.spare()                          # stands in the file exactly once
//     new: _ = t
//     test: ./internal/node/worker -run TestX   # a package, then flags of go test, split at blanks
//
// The command prints one line a mutation, and how many there are of each:
//
//   - killed: the test passes without the mutation and fails with it.
//   - SURVIVED: the test passes with the mutation, so nothing holds the law.
//   - broken: the entry shows nothing. The text is not there, or more than once;
//     the code does not compile; no test runs; or the test fails without the mutation too.
//
// The command exits with 1 unless all are killed. It never writes to the tree:
// go test -overlay puts the changed file in the place of the original one. That
// holds for the Redis scripts as well, which the binary embeds. What is built of a
// changed file goes to a cache that is removed at the end.
package main
