package statuscmd

import (
	"strings"

	"charm.land/lipgloss/v2"
)

// column is one of a table that has to fit a terminal.
type column struct {
	title string
	right bool // numbers
	least int  // cells to which it may shrink; 0: it keeps its width
	drop  int  // [seldom] or [last]: the column may be left out; 0: it stays
}

// When a column is left out for which there is no place.
const (
	last   = 1 // after the others have shrunk as far as they may
	seldom = 2 // before they shrink until they are hard to read
)

// row is a line of a table.
type row struct {
	cells []string
	warn  bool
}

const (
	gap      = 2  // cells between two columns
	readable = 24 // cells of a column that shrinks before others are left out
)

// table adds a table to the page; nothing, where it has no rows.
func (p *page) table(columns []column, rows []row) {
	if len(rows) == 0 {
		return
	}
	widths := fit(columns, rows, p.width)
	p.blank()
	titles := make([]string, len(columns))
	for i, c := range columns {
		titles[i] = c.title
	}
	p.paint(heading, tableLine(columns, widths, titles))
	for _, r := range rows {
		style := plain
		if r.warn {
			style = bad
		}
		p.paint(style, tableLine(columns, widths, r.cells))
	}
}

// fit are the widths of the columns; 0: the column is left out.
func fit(columns []column, rows []row, width int) []int {
	widths := make([]int, len(columns))
	for i, c := range columns {
		widths[i] = lipgloss.Width(c.title)
		for _, r := range rows {
			widths[i] = max(widths[i], lipgloss.Width(r.cells[i]))
		}
	}
	if width <= 0 {
		return widths
	}
	for total(widths) > width {
		if !shrink(columns, widths, readable) && !leaveOut(columns, widths, seldom) && !shrink(columns, widths, 0) && !leaveOut(columns, widths, last) {
			break
		}
	}
	return widths
}

func total(widths []int) (sum int) {
	for _, w := range widths {
		if w > 0 {
			sum += w + gap
		}
	}
	return sum - gap
}

// shrink takes a cell from the widest column that may shrink and is wider than floor.
func shrink(columns []column, widths []int, floor int) bool {
	widest := -1
	for i, c := range columns {
		if c.least > 0 && widths[i] > max(c.least, floor) && (widest < 0 || widths[i] > widths[widest]) {
			widest = i
		}
	}
	if widest < 0 {
		return false
	}
	widths[widest]--
	return true
}

// leaveOut leaves out the first column that is there and may go.
func leaveOut(columns []column, widths []int, drop int) bool {
	for i, c := range columns {
		if c.drop == drop && widths[i] > 0 {
			widths[i] = 0
			return true
		}
	}
	return false
}

func tableLine(columns []column, widths []int, cells []string) string {
	var parts []string
	for i, c := range columns {
		if widths[i] > 0 {
			parts = append(parts, pad(cut(cells[i], widths[i]), widths[i], c.right))
		}
	}
	return strings.TrimRight(strings.Join(parts, strings.Repeat(" ", gap)), " ")
}
