// Package statuscmd is `dispatcher status`, which shows what the whole fleet does, and `dispatcher forecast`, which says when the
// jobs that wait will be gone.
//
// internal/overview reads and judges the fleet; this package only prints. [page] makes the text, the same for a terminal and for a
// pipe. It starts no goroutine itself; bubbletea does for the live view.
package statuscmd
