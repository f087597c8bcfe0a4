package consumer

import (
	"context"
	"log/slog"

	"dispatcher/consumer/deadletter"

	"dispatcher/internal/clip"
)

// This file writes one line for each step of a job, at log.level debug. No line
// holds the payload or the key.

// Step logs that the job has come to a step, with its id and its place. It allocates
// nothing where the level is not logged.
func (d *Delivery) Step(step string, attrs ...slog.Attr) {
	log := d.part.hub.log
	if !log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	j := &d.Job
	log.LogAttrs(context.Background(), slog.LevelDebug, "step of a job", append([]slog.Attr{
		slog.String("step", step), slog.String("id", clip.Text(j.ID, deadletter.MaxCodeBytes)),
		slog.String("topic", j.Topic), slog.Int("partition", j.Partition), slog.Int64("offset", j.Offset),
	}, attrs...)...)
}

// fetched logs that jobs were fetched, and until when those wait that are not due.
func (h *hub) fetched(jobs []Delivery) {
	if !h.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	for i := range jobs {
		d := &jobs[i]
		switch {
		case d.hop != nil && !d.hop.due.IsZero():
			d.Step("fetched, waits for its time", slog.Time("until", d.hop.due))
		case d.key != 0:
			d.Step("fetched, waits for the jobs of its key and for a slot")
		default:
			d.Step("fetched, waits for a slot")
		}
	}
}
