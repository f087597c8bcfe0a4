package schedule

import (
	"context"
	"log/slog"

	"dispatcher/consumer/deadletter"
	"dispatcher/internal/clip"
)

func (s *Scheduler) step(d *Delivery, step string, attrs []slog.Attr) {
	log := s.opts.Log
	if !log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	j := &d.Job
	log.LogAttrs(context.Background(), slog.LevelDebug, "step of a job", append([]slog.Attr{
		slog.String("step", step), slog.String("id", clip.Text(j.ID, deadletter.MaxCodeBytes)),
		slog.String("topic", j.Topic), slog.Int("partition", j.Partition), slog.Int64("offset", j.Offset),
	}, attrs...)...)
}

// logFetched logs that jobs were fetched, and what each waits for.
func (s *Scheduler) logFetched(jobs []Delivery) {
	if !s.opts.Log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	for i := range jobs {
		d := &jobs[i]
		switch {
		case d.times != nil && !d.times.due.IsZero():
			d.Step("fetched, waits for its time", slog.Time("until", d.times.due))
		case d.key != 0:
			d.Step("fetched, waits for the jobs of its key and for a slot")
		default:
			d.Step("fetched, waits for a slot")
		}
	}
}
