package limit

import "time"

// Span are the terms that hold until a time.
type Span struct {
	Terms
	Until time.Time // by Redis's clock; zero: for good
}

// MaxEnds is at how many times settings may return by themselves. Each call carries all of them.
const MaxEnds = 3

// Spans are the terms in force, and those that follow at the end of each override. The last ones hold for good.
func (s Settings) Spans() []Span {
	spans := []Span{{s.Terms, s.RevertAt}}
	for !s.RevertAt.IsZero() {
		s = s.Reverted()
		spans = append(spans, Span{s.Terms, s.RevertAt})
	}
	return spans
}

// WithSpans are the settings with other terms in force, and with what follows them. All else of them must be stated before.
func (s Settings) WithSpans(spans []Span) Settings {
	spans = merged(spans)
	s.packed, s.revertTo = "", ""
	s.Terms, s.RevertAt, s.RevertTo = spans[0].Terms, spans[0].Until, Terms{}
	if len(spans) > 1 {
		s.RevertTo = spans[1].Terms
		s.revertTo = s.Reverted().WithSpans(spans[1:]).Pack()
	}
	return s
}

// merged makes one span of neighbours with the same terms.
func merged(spans []Span) (all []Span) {
	for _, one := range spans {
		if last := len(all) - 1; last >= 0 && all[last].Terms == one.Terms {
			all[last].Until = one.Until
			continue
		}
		all = append(all, one)
	}
	return all
}

// PauseEnds is when a pause ends by itself; zero: when somebody resumes the limit, also where an override ends before. Of a limit
// that is not paused it is zero.
func (s Settings) PauseEnds() time.Time {
	if !s.Paused {
		return time.Time{}
	}
	var ends time.Time
	for _, one := range s.Spans() {
		if !one.Paused {
			return ends
		}
		ends = one.Until
	}
	return time.Time{}
}
