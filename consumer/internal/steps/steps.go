package steps

import (
	"context"
	"log/slog"

	"dispatcher/consumer/deadletter"
	"dispatcher/internal/clip"
	"dispatcher/job"
)

// Log is where steps are written.
type Log struct{ *slog.Logger }

// On reports whether steps are logged.
func (l Log) On() bool { return l.Enabled(context.Background(), slog.LevelDebug) }

// Write logs a step of a job. It allocates nothing where steps are not logged.
func (l Log) Write(j *job.Job, step string, attrs ...slog.Attr) {
	if !l.On() {
		return
	}
	l.LogAttrs(context.Background(), slog.LevelDebug, "step of a job", append([]slog.Attr{
		slog.String("step", step), slog.String("id", clip.Text(j.ID, deadletter.MaxCodeBytes)),
		slog.String("topic", j.Topic), slog.Int("partition", j.Partition), slog.Int64("offset", j.Offset),
	}, attrs...)...)
}

// Later are steps to be written later. The zero value has none.
type Later struct{ noted []step }

type step struct {
	of   *job.Job
	name string
	attr slog.Attr
}

// Note has a step written later, where steps are logged. An empty attribute is not written.
func (n *Later) Note(l Log, j *job.Job, name string, attr slog.Attr) {
	if l.On() {
		n.noted = append(n.noted, step{j, name, attr})
	}
}

// Take takes the steps that were noted.
func (n *Later) Take() Later {
	taken := *n
	n.noted = nil
	return taken
}

// Write writes the steps.
func (n Later) Write(l Log) {
	for _, one := range n.noted {
		l.Write(one.of, one.name, one.attr)
	}
}
