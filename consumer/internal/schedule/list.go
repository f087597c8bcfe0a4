package schedule

// list is a queue of deliveries, linked by Delivery.next.
type list struct{ head, tail *Delivery }

func (l *list) push(d *Delivery) {
	if l.tail == nil {
		l.head = d
	} else {
		l.tail.next = d
	}
	l.tail = d
}

func (l *list) pushFront(d *Delivery) {
	d.next = l.head
	if l.head = d; l.tail == nil {
		l.tail = d
	}
}

func (l *list) pop() *Delivery {
	d := l.head
	if l.head = d.next; l.head == nil {
		l.tail = nil
	}
	d.next = nil
	return d
}

func (l *list) len() (n int) {
	for d := l.head; d != nil; d = d.next {
		n++
	}
	return n
}

// remove takes out the delivery at a place, from 0; nil: there is none.
func (l *list) remove(at int) *Delivery {
	if at <= 0 {
		if at < 0 || l.head == nil {
			return nil
		}
		return l.pop()
	}
	before := l.head
	for ; at > 1 && before != nil; at-- {
		before = before.next
	}
	if before == nil || before.next == nil {
		return nil
	}
	d := before.next
	if before.next = d.next; before.next == nil {
		l.tail = before
	}
	d.next = nil
	return d
}
