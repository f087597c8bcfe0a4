package schedule

// TakeSample hands out any fetched job that has not failed yet: its call tells more about
// the provider than that of a job which has failed. Where there is none, it is
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
			d.on(enqueue)
			return s.handOut(d)
		}
		if d != nil {
			p.divert(d, d.expiry())
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
			if p.src.Delay == 0 && a.phase == working && (p.freed.head != nil || p.buffer.head != nil) {
				parts = append(parts, p)
			}
		}
	}
	return parts
}

// sample takes a fetched job, each with the same chance. The jobs before it keep their order,
// and their keys.
func (p *Partition) sample() *Delivery {
	freed := p.freed.jobs
	n := p.sched.random(freed + p.buffer.jobs)
	for at := freed; at <= n && p.buffer.head != nil; at++ {
		d, ok := p.admitNext()
		if !ok {
			break
		}
		if d != nil {
			p.freed.push(d)
		}
	}
	return p.freed.remove(min(n, p.freed.jobs-1))
}
