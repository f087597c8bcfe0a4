package schedule

import "dispatcher/consumer/internal/states"

// TakeSample hands out any fetched job, one that has not slept if there is one: its call tells more
// about the provider than that of a job which has failed. Where there is none, it is
// [Scheduler.Take].
func (s *Scheduler) TakeSample() *Delivery {
	s.mu.Lock()
	defer s.unlock()
	if parts := s.withFresh(); len(parts) > 0 {
		p := parts[s.random(len(parts))]
		d := p.sample()
		p.src.Lane.enlist(p)
		p.wakeFetcher()
		if d != nil && !d.expired() {
			d.on(states.Enqueue)
			return s.handOut(d)
		}
		if d != nil {
			p.divertExpired(d)
		}
	}
	for _, l := range s.opts.Lanes {
		if d := l.popFresh(); d != nil {
			return s.handOut(d)
		}
	}
	return s.takeBest()
}

// withFresh are the partitions, without those of retry topics, that have jobs which are not
// ready yet.
func (s *Scheduler) withFresh() (parts []*Partition) {
	for a := range s.live {
		for _, p := range a.parts {
			if p.src.Delay == 0 && a.phase == working && (p.freed.Head() != nil || p.buffer.Head() != nil) {
				parts = append(parts, p)
			}
		}
	}
	return parts
}

// sample takes a fetched job, each with the same chance. The jobs before it keep their order,
// and their keys.
func (p *Partition) sample() *Delivery {
	freed := p.freed.Volume().Items
	n := p.sched.random(freed + p.buffer.Volume().Items)
	for at := freed; at <= n && p.buffer.Head() != nil; at++ {
		d, ok := p.admitNext()
		if !ok {
			break
		}
		if d != nil {
			p.freed.Push(d)
		}
	}
	return p.freed.Remove(min(n, p.freed.Volume().Items-1))
}
