package consumer

// lane is a set of topics that share a priority, a limit of jobs in hand and a
// queue of jobs that are ready. The hub's lock guards it.
type lane struct {
	name     string
	limit    int     // jobs ready and in hand, at most
	minShare float64 // the least share of the hand-outs while something is ready

	inHand int     // taken and not settled
	ready  list    // admitted, and free to go; in the order in which they are taken
	count  int     // in ready
	credit float64 // hand-outs that the min share still owes
	done   meter   // jobs that were settled for good

	first *partition // queue of partitions that may have a job to make ready
	last  *partition
}

// room tells whether one more job may be made ready.
func (l *lane) room() bool { return l.inHand+l.count < l.limit }

// enlist queues a partition that may have a job to make ready.
func (l *lane) enlist(p *partition) {
	if p.listed || p.asg.draining || !p.hasSome() {
		return
	}
	p.listed, p.after = true, nil
	if l.last == nil {
		l.first = p
	} else {
		l.last.after = p
	}
	l.last = p
}

func (l *lane) delist() *partition {
	p := l.first
	if l.first = p.after; l.first == nil {
		l.last = nil
	}
	p.listed, p.after = false, nil
	return p
}

func (l *lane) push(d *Delivery) {
	l.ready.push(d)
	l.count++
}

func (l *lane) pop() *Delivery {
	l.count--
	return l.ready.pop()
}

// drop takes an assignment's jobs out of the queue.
func (l *lane) drop(a *assignment) {
	all := l.ready
	l.ready, l.count = list{}, 0
	for all.head != nil {
		if d := all.pop(); d.part.asg != a {
			l.push(d)
		}
	}
}

// pick chooses the lane whose job goes next; nil: none has one. The first lane
// with a job wins, unless another one's min share is owed a whole hand-out. Lanes
// that have nothing ready are owed nothing for it.
func pick(lanes []*lane) *lane {
	var first, owed *lane
	for _, l := range lanes {
		if l.count == 0 {
			continue
		}
		if first == nil {
			first = l
		}
		if l.credit += l.minShare; l.credit >= 1 && (owed == nil || l.credit > owed.credit) {
			owed = l
		}
	}
	if owed == nil {
		owed = first
	}
	if owed != nil {
		owed.credit = max(owed.credit-1, 0)
	}
	return owed
}
