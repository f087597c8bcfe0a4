package browser

import "fmt"

// NodesReady waits until the page shows so many nodes, and none of them as unwell.
func (b *Tab) NodesReady(nodes int) {
	b.Helper()
	b.Until("all nodes are ready", fmt.Sprintf("document.querySelectorAll('#node-rows tr').length === %d && !document.querySelector('#node-rows .warn')", nodes))
}

// FillsRate fills the form that changes the rate, by the keyboard alone. Jobs wait, so the page says what the cap does to them.
func (b *Tab) FillsRate(units, why, by string) {
	b.Helper()
	b.TabTo("cap")
	b.Press(units)
	b.Has("preview-text", "instead of")
	b.TabTo("why")
	b.Press(why)
	b.TabTo("by")
	b.Press(by)
}
