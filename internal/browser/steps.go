package browser

import (
	"fmt"

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

// Agrees waits for the dialog, in which the button that agrees has the focus, and presses it by the enter key.
func (b *Tab) Agrees() {
	b.Helper()
	b.Has("confirm-yes", "")
	b.Press(kb.Enter)
}
