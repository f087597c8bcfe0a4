package statuscmd

import (
	"fmt"
	"math"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
)

// span writes seconds in at most six letters.
func span(seconds float64) string {
	if math.IsNaN(seconds) || seconds < 0 {
		seconds = 0
	}
	const minute, hour, day = 60, 3600, 86400
	s := int64(min(seconds, 1e9))
	switch {
	case seconds < 10:
		return fmt.Sprintf("%.1fs", seconds)
	case s < 2*minute:
		return fmt.Sprintf("%ds", s)
	case s < hour:
		return fmt.Sprintf("%dm%02ds", s/minute, s%minute)
	case s < day:
		return fmt.Sprintf("%dh%02dm", s/hour, s%hour/minute)
	case s < 100*day:
		return fmt.Sprintf("%dd%02dh", s/day, s%day/hour)
	}
	return fmt.Sprintf("%dd", s/day)
}

// cut shortens text to so many cells of a terminal; 0: not at all.
func cut(text string, width int) string {
	if width <= 0 || lipgloss.Width(text) <= width {
		return text
	}
	kept, used := "", 0
	for _, r := range text {
		w := lipgloss.Width(string(r))
		if used+w > width-1 {
			break
		}
		kept, used = kept+string(r), used+w
	}
	return kept + "…"
}

// wrap breaks text between words into lines of at most so many cells; 0: into one line.
func wrap(text string, width int) []string {
	if width <= 0 {
		return []string{text}
	}
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		word = cut(word, width)
		switch {
		case line == "":
			line = word
		case lipgloss.Width(line)+1+lipgloss.Width(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	return append(lines, line)
}

// pad fills text up to so many cells.
func pad(text string, width int, right bool) string {
	gap := strings.Repeat(" ", max(0, width-lipgloss.Width(text)))
	if right {
		return gap + text
	}
	return text + gap
}

// spark draws the values as bars of which top is the highest, in at most so many cells. A gap is a value that is not known.
func spark(values []*float64, top float64, cells int) string {
	if len(values) == 0 || cells < 1 {
		return ""
	}
	const bars = "▁▂▃▄▅▆▇█"
	levels := []rune(bars)
	each := (len(values) + cells - 1) / cells // values in a cell
	var b strings.Builder
	for from := 0; from < len(values); from += each {
		mean, known := meanOf(values[from:min(from+each, len(values))])
		switch {
		case !known:
			b.WriteRune('·')
		case top <= 0:
			b.WriteRune(levels[0])
		default:
			level := int(mean / top * float64(len(levels)))
			b.WriteRune(levels[max(0, min(level, len(levels)-1))])
		}
	}
	return b.String()
}

// meanOf is the mean of the values that are known.
func meanOf(values []*float64) (mean float64, known bool) {
	n := 0
	for _, v := range values {
		if v != nil {
			mean, n = mean+*v, n+1
		}
	}
	return mean / float64(max(1, n)), n > 0
}

func secondsOf(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second)).Round(time.Microsecond)
}
