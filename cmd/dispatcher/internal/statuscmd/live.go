package statuscmd

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"dispatcher/cmd/dispatcher/internal/cli"
	"dispatcher/internal/timetext"
)

const (
	refresh = time.Second
	old     = 3 * time.Second // the age from which on a picture is called old
)

// watch shows the fleet until q, Ctrl-C or the end of ctx.
func watch(ctx context.Context, p picture, read func() (picture, error), out io.Writer) error {
	now := time.Now()
	v := live{read: read, p: p, at: now, now: now}
	_, err := tea.NewProgram(v, tea.WithOutput(out), tea.WithContext(ctx), tea.WithoutSignalHandler()).Run()
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("status: live view: %w", err)
	}
	return nil
}

// live is bubbletea's model. A picture that can't be read again stays, and its age is shown.
type live struct {
	read    func() (picture, error)
	reading bool // an answer is to come
	p       picture
	at      time.Time // when p was read
	err     error     // of the last reading; nil: it succeeded
	now     time.Time

	width, height int // of the terminal; 0: not known yet
	top           int // lines that are scrolled away
}

type (
	tick   time.Time
	answer struct {
		p   picture
		err error
	}
)

func (v live) Init() tea.Cmd { return next() }

func next() tea.Cmd { return tea.Tick(refresh, func(t time.Time) tea.Msg { return tick(t) }) }

func (v live) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tick:
		v.now = time.Time(msg)
		if v.reading {
			return v, next()
		}
		v.reading = true
		read := v.read
		return v, tea.Batch(next(), func() tea.Msg {
			p, err := read()
			return answer{p, err}
		})
	case answer:
		v.reading, v.err = false, msg.err
		if msg.err == nil {
			v.p, v.at = msg.p, v.now
		}
	case tea.WindowSizeMsg:
		v.width, v.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return v.key(msg.String())
	}
	return v, nil
}

func (v live) key(key string) (tea.Model, tea.Cmd) {
	page := max(1, v.height-2)
	switch key {
	case "q", "ctrl+c":
		return v, tea.Quit
	case "up", "k":
		v.top--
	case "down", "j":
		v.top++
	case "pgup":
		v.top -= page
	case "pgdown", "space":
		v.top += page
	case "home":
		v.top = 0
	}
	v.top = max(0, min(v.top, len(v.lines())-v.body()))
	return v, nil
}

func (v live) View() tea.View {
	view := tea.NewView(v.text())
	view.AltScreen = true
	return view
}

// body is how many lines the terminal has, less one for the keys.
func (v live) body() int {
	if v.height == 0 {
		return len(v.lines())
	}
	return max(1, v.height-1)
}

// lines are all lines of the picture.
func (v live) lines() []string {
	width := v.width
	if width == 0 {
		width = 80
	}
	p := pageOf(v.p, width, true)
	if banner := v.banner(); banner != "" {
		head := page{width: width, color: true}
		head.say(bad, banner)
		head.blank()
		return append(head.lines, p.lines...)
	}
	return p.lines
}

// banner says that the picture is old; empty: it is not.
func (v live) banner() string {
	age := v.now.Sub(v.at)
	if v.err == nil && age < old {
		return ""
	}
	why := "Redis does not answer"
	if v.err != nil {
		why = cli.Plainly(v.err.Error(), 0)
	}
	return fmt.Sprintf("OLD: this is the picture of %s, %s ago. Reading it again fails: %s.", timetext.StampExact(v.p.At), span(age.Seconds()), why)
}

// text is the part of the picture that fits, above the keys.
func (v live) text() string {
	lines, body := v.lines(), v.body()
	top := max(0, min(v.top, len(lines)-body))
	end := min(len(lines), top+body)
	keys := "q ends"
	if hidden := len(lines) - (end - top); hidden > 0 {
		keys += fmt.Sprintf(", ↑ ↓ show %d more lines", hidden)
	}
	return strings.Join(append(lines[top:end:end], lipgloss.NewStyle().Faint(true).Render(keys)), "\n")
}
