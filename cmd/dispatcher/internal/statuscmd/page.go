package statuscmd

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/internal/overview"
	"dispatcher/internal/timetext"
	"dispatcher/throttle/limit"
)

// page is the text of a picture, line by line.
type page struct {
	width int // of a line; 0: as long as it is
	color bool
	lines []string
}

// style is how a line looks on a terminal.
type style int

const (
	plain style = iota
	good
	warning
	bad
	heading
)

// pageOf makes the page of a picture.
func pageOf(picture picture, width int, color bool) *page {
	p, f := &page{width: width, color: color}, picture.Fleet
	p.health(f.Health)
	p.limit(picture)
	p.lanes(f.Lanes)
	p.limits(f.Limits)
	p.keys(f.Keys)
	p.nodes(f.Nodes)
	p.topics(f.Topics)
	p.blank()
	p.field("dead letters", deadLetters(f.DeadLetters))
	p.field("read", fmt.Sprintf("%s, namespace %s", timetext.StampExact(f.At), f.Limit.Namespace))
	return p
}

func (p *page) text() string { return strings.Join(p.lines, "\n") + "\n" }

func (p *page) blank() { p.lines = append(p.lines, "") }

// paint adds one line that fits already.
func (p *page) paint(s style, line string) {
	if p.color && line != "" {
		line = map[style]lipgloss.Style{
			good:    lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Color("2")),
			warning: lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Color("3")),
			bad:     lipgloss.NewStyle().Foreground(lipgloss.Color("1")),
			heading: lipgloss.NewStyle().Faint(true),
		}[s].Render(line)
	}
	p.lines = append(p.lines, line)
}

// say adds a sentence, in as many lines as it needs.
func (p *page) say(s style, text string) {
	for _, line := range wrap(text, p.width) {
		p.paint(s, line)
	}
}

// labelWidth is that of the longest label and the space around it.
const labelWidth = 17

// field adds a label and text that begins beside it.
func (p *page) field(label, text string) {
	for i, line := range wrap(text, p.besideLabel()) {
		if i > 0 {
			label = ""
		}
		p.paint(plain, pad("  "+label, labelWidth, false)+line)
	}
}

// besideLabel is the width of what stands beside a label; 0: as long as it is.
func (p *page) besideLabel() int {
	if p.width == 0 {
		return 0
	}
	return max(10, p.width-labelWidth)
}

func (p *page) health(h overview.Health) {
	s := good
	if h.Warn {
		s = warning
	}
	p.say(s, cli.Plainly(h.Text, 0))
	if h.Lacks != "" {
		p.say(bad, cli.Plainly(h.Lacks, 0))
	}
}

// limit adds the first limit, the calls under it, and when the jobs will be gone.
func (p *page) limit(picture picture) {
	f, l := picture.Fleet, picture.Limit
	now := l.Settings
	p.blank()
	p.say(plain, fmt.Sprintf("limit %s: %s", cli.Plainly(l.Name, 0), cli.Brief(now.Terms, l.Counts)))
	if slow := l.Slowdown; slow != nil {
		text := fmt.Sprintf("%.4g since %s: %s", slow.EffectiveCap, timetext.StampExact(slow.Since), cli.Plainly(slow.Why, 0))
		if slow.BlockedUntil != "" {
			text += "; blocked until " + timetext.StampExact(slow.BlockedUntil)
		}
		p.field("effective cap", text)
	}
	if l.RevertInS != nil {
		p.field("override", fmt.Sprintf("until %s (%s left), %s", timetext.Stamp(now.RevertAt), span(*l.RevertInS), cli.Following(now, l.Counts)))
	}
	p.field("revision", revision(now))
	p.field("in force", cli.Plainly(strings.TrimPrefix(l.InForce.String(), "in force "), 0))
	p.calls(picture)
	if f.Health.State != overview.Unknown {
		p.field("gone", gone(f.Forecast))
		if text := f.Forecast.ExpireText(); text != "" {
			p.field("expire", text)
		}
	}
}

// revision is which settings are in force, and who made them.
func revision(s limit.Settings) string {
	if s.Changed.IsZero() {
		return fmt.Sprintf("%d, seeded from a file", s.Revision)
	}
	text := fmt.Sprintf("%d of %s by %s", s.Revision, timetext.Stamp(s.Changed), s.By)
	if s.Why != "" {
		text += ": " + s.Why
	}
	return cli.Plainly(text, 0)
}

// calls adds the calls of the last minute, and the share of the cap that they are.
func (p *page) calls(picture picture) {
	c := picture.Calls
	var sum, units, allowed, refused, top float64
	seconds := 0
	for i, n := range c.Calls {
		if n == nil || c.Cap[i] == nil {
			continue
		}
		seconds++
		sum, allowed, top = sum+*n, allowed+*c.Cap[i], max(top, *n, *c.Cap[i])
		if r := c.Refused[i]; r != nil {
			refused += *r
		}
		if u := c.Units[i]; u != nil {
			units += *u
		}
	}
	if seconds == 0 {
		p.field("calls", "no node said anything in the last minute")
		return
	}
	cells := minute
	if p.width > 0 {
		cells = max(1, min(minute, p.width-labelWidth))
	}
	p.field("calls", spark(c.Calls, top, cells))
	text := fmt.Sprintf("%.4g a second over %d s", sum/float64(seconds), seconds)
	if allowed > 0 {
		text += fmt.Sprintf(", %.0f %% of the cap", 100*units/allowed)
	}
	if picture.Limit.Settings.LargestCost() > 1 {
		text += fmt.Sprintf(" in %.4g units a second", units/float64(seconds))
	}
	if refused > 0 {
		text += fmt.Sprintf(", %.0f refused for their rate", refused)
	}
	p.field("", text)
}

// gone says when the jobs that wait will be gone.
func gone(f overview.Forecast) string {
	switch {
	case f.Jobs == 0:
		return "no job waits"
	case f.LeftS == nil && f.PerS > 0:
		return fmt.Sprintf("not within a year: %.0f jobs wait, and hardly any is settled", f.Jobs)
	case f.LeftS == nil:
		return fmt.Sprintf("never: %.0f jobs wait, and none is settled", f.Jobs)
	}
	text := fmt.Sprintf("in %s, at %s, if no more come: %.0f jobs at %.4g a second", span(*f.LeftS), timetext.StampExact(f.GoneAt), f.Jobs, f.PerS)
	if cost := f.CostText(); cost != "" {
		text += "; a job counts " + cost
	}
	return text
}

func (p *page) lanes(lanes []overview.Lane) {
	var rows []row
	for _, l := range lanes {
		drain := "no end"
		if l.DrainS != nil {
			drain = span(*l.DrainS)
		}
		rows = append(rows, row{cells: []string{
			cli.Plainly(l.Name, 0), whole(l.Waiting), strconv.Itoa(l.InFlight), strconv.Itoa(l.Asleep), whole(l.Delayed), span(l.OldestS), fmt.Sprintf("%.1f", l.PerS), drain,
		}})
	}
	p.table([]column{
		{title: "LANE", least: 6},
		{title: "WAITING", right: true},
		{title: "IN FLIGHT", right: true},
		{title: "ASLEEP", right: true, drop: last},
		{title: "DELAYED", right: true, drop: seldom},
		{title: "OLDEST", right: true},
		{title: "PER S", right: true, drop: seldom},
		{title: "DRAIN", right: true},
	}, rows)
}

func (p *page) limits(limits []overview.Limit) {
	var rows []row
	for _, l := range limits {
		binds := percent(l.Binds)
		if l.Paused != nil {
			binds = "paused"
		}
		rows = append(rows, row{cells: []string{cli.Plainly(l.Name, 0), strconv.Itoa(l.Waiting), binds}, warn: l.Paused != nil})
	}
	p.table([]column{{title: "LIMIT", least: 8}, {title: "WAITING", right: true}, {title: "BINDS", right: true}}, rows)
}

func (p *page) keys(keys []overview.Key) {
	var rows []row
	for _, k := range keys {
		jobs := strconv.Itoa(k.Jobs)
		if k.AtLeast {
			jobs += " or more"
		}
		rows = append(rows, row{cells: []string{cli.Plainly(cmp.Or(k.Limit, "(ordering key)"), 0), k.Hash, jobs}})
	}
	p.table([]column{{title: "KEY OF", least: 8}, {title: "HASH", least: 8}, {title: "JOBS"}}, rows)
}

func (p *page) nodes(nodes []overview.Node) {
	var rows []row
	for _, n := range nodes {
		state, well := stateOf(n)
		r := row{cells: []string{cli.Plainly(n.Name, 0), state, percent(n.Share), "?", "?", "?"}, warn: !well}
		if n.Figures != nil {
			r.cells[3], r.cells[4], r.cells[5] = fmt.Sprintf("%.0f", n.Figures.LateSlots), span(n.AgeS), versionOf(n.Figures.Version)
		}
		rows = append(rows, r)
	}
	p.table([]column{
		{title: "NODE", least: 8},
		{title: "STATE", least: 14},
		{title: "SHARE", right: true},
		{title: "LATE", right: true},
		{title: "AGE", right: true},
		{title: "VERSION", least: 7, drop: seldom},
	}, rows)
}

// stateOf says whether a node is ready, or why it is not.
func stateOf(n overview.Node) (text string, well bool) {
	switch {
	case n.Missing:
		return "missing for " + span(n.SeenS), false
	case n.Figures == nil:
		return "says nothing of itself", false
	case n.Stale:
		return "silent for " + span(n.AgeS), false
	case !n.Figures.Ready:
		if c, fails := n.Figures.Fault(); fails {
			return cli.Plainly(c.Name+": "+c.Error, 0), false
		}
		return "not ready", false
	}
	text = "ready"
	if n.Figures.ProviderDown {
		text += ", the provider does not answer"
	} else if n.Figures.Note != "" {
		text += ", " + cli.Plainly(n.Figures.Note, 0)
	}
	if !n.InForce {
		text += ", has old settings"
	}
	return text, !n.Figures.ProviderDown && n.InForce
}

// versionOf is a version without that of Go, and with a short commit.
func versionOf(version string) string {
	const short = 12
	var kept []string
	for word := range strings.FieldsSeq(cli.Plainly(version, 0)) {
		if !strings.HasPrefix(word, "go1") {
			kept = append(kept, word)
		}
	}
	if n := len(kept); n > 1 && len(kept[n-1]) == 40 {
		kept[n-1] = kept[n-1][:short]
	}
	return cmp.Or(strings.Join(kept, " "), "?")
}

func (p *page) topics(topics []overview.Topic) {
	var rows []row
	for _, t := range topics {
		rows = append(rows, row{cells: []string{cli.Plainly(t.Name, 0), whole(t.Lag), strconv.Itoa(t.Partitions)}})
	}
	p.table([]column{{title: "TOPIC", least: 8}, {title: "LAG", right: true}, {title: "PARTITIONS", right: true, drop: last}}, rows)
}

func deadLetters(byClass map[string]float64) string {
	var parts []string
	for _, class := range slices.Sorted(maps.Keys(byClass)) {
		if n := byClass[class]; n > 0 {
			parts = append(parts, fmt.Sprintf("%.0f %s", n, cli.Plainly(class, 0)))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "none") + ", since the nodes started"
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

func whole(n int64) string { return strconv.FormatInt(n, 10) }
