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

// Agrees waits for the dialog, in which the button that agrees has the focus, and presses it by the enter key.
func (b *Tab) Agrees() {
	b.Helper()
	b.Has("confirm-yes", "")
	b.Press(kb.Enter)
}
