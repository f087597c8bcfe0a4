package browser

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/chromedp/chromedp/kb"
)

// NodesReady waits until the page shows so many nodes, and none of them as unwell.
func (b *Tab) NodesReady(nodes int) {
	b.Helper()
	b.Until("all nodes are ready", fmt.Sprintf("document.querySelectorAll('#node-rows tr').length === %d && !document.querySelector('#node-rows .warn')", nodes))
}

// FillsRate fills the form that changes the rate, by the keyboard alone. Jobs wait, so the page says what the cap does to them.
func (b *Tab) FillsRate(units, why, by string) {
	b.Helper()
	b.Writes("cap", units)
	b.Has("preview-text", "instead of")
	b.Writes("why", why)
	b.Writes("by", by)
}

// Revision is that of the settings which the page knows.
func (b *Tab) Revision() int {
	b.Helper()
	return Eval[int](b, "Number(document.getElementById('rate').dataset.revision)")
}

// Knows waits until the page knows settings of a revision.
func (b *Tab) Knows(revision int) {
	b.Helper()
	b.Until(fmt.Sprint("the page knows revision ", revision), fmt.Sprintf("Number(document.getElementById('rate').dataset.revision) >= %d", revision))
}

// Changed waits until a row of the history has all of the words, wherever it stands: the fleet's own lines may come after it.
func (b *Tab) Changed(words ...string) {
	b.Helper()
	b.Until(fmt.Sprintf("a row of the history has %q", words), fmt.Sprintf(
		"[...document.querySelectorAll('#history-rows tr')].some((row) => %s.every((word) => row.textContent.includes(word)))", list(words)))
}

// Undoable waits until the change that the page offers to undo is one with these words.
func (b *Tab) Undoable(words string) {
	b.Helper()
	b.Until(fmt.Sprintf("the change with %q can be undone", words), fmt.Sprintf(
		"document.getElementById('undo')?.closest('tr').textContent.includes(%q)", words))
}

// list writes words as JavaScript has them.
func list(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = strconv.Quote(word)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// Agrees waits for the dialog, in which the button that agrees has the focus, and presses it by the enter key.
func (b *Tab) Agrees() {
	b.Helper()
	b.Has("confirm-yes", "")
	b.Press(kb.Enter)
}
