package dedup

import (
	"fmt"
	"time"
)

type stage int

const (
	asking stage = iota
	ready
	calling
	telling
)

// agent is one delivery of a job.
type agent struct {
	node    *script
	job     int
	who     string
	stage   stage
	number  int64
	granted time.Time
	useBy   time.Time
	taken   bool
	kept    bool
	frozen  bool
	call    *call
	until   time.Time // by when it has gone on, unless it is frozen
	gone    bool
}

// step lets a delivery go on. When it is due nothing is lost on the way.
func (w *world) step(a *agent, due bool) {
	w.Helper()
	switch a.stage {
	case asking:
		w.claim(a)
	case ready:
		w.begin(a)
	case calling:
		w.answer(a)
	case telling:
		w.tell(a, due)
	}
}

func (w *world) claim(a *agent) {
	w.Helper()
	request, reply := w.lost()
	if request {
		return
	}
	r := w.do(a.node, ask{verb: verbClaim, job: jobOf(a.job), who: a.who, number: a.number})
	if r.verdict == toldTaken || r.verdict == toldUnknown {
		w.nobodyCalls(a)
	}
	if r.verdict == toldTaken {
		a.taken, a.kept = true, true // also where the reply is lost: the next one says granted
	}
	if reply {
		return
	}
	switch r.verdict {
	case toldGranted, toldTaken:
		a.stage, a.granted, a.useBy = ready, w.now, w.now.Add(simMargin)
		if at := w.acked[a.job]; !at.IsZero() && w.now.Sub(at) < simWindow {
			w.Fatal(fmt.Sprintf("job %d was granted %v after Redis had acknowledged that it was done", a.job, w.now.Sub(at)))
		}
	case toldSent:
		if !w.noted[a.job] {
			w.Fatal(fmt.Sprintf("job %d counts as sent, and nobody has said so", a.job))
		}
		w.met.sent++
		a.gone = true
	case toldUnknown:
		w.met.unknown++
		a.gone = true // parked
	case toldBusy:
		a.number++
	}
}

// nobodyCalls holds a verdict of unknown against those who are still there.
func (w *world) nobodyCalls(by *agent) {
	w.Helper()
	for _, a := range w.agents {
		if a != by && a.job == by.job && !a.gone && !a.frozen && (a.stage == calling || a.stage == telling) {
			w.Fatal(fmt.Sprintf("job %d is unknown, and its call is under way since %v", a.job, w.now.Sub(a.granted)))
		}
	}
}

// begin writes the call, or lets it be.
func (w *world) begin(a *agent) {
	if !w.now.Before(a.useBy) {
		a.stage = asking
		a.number++
		return
	}
	if w.roll(4) == 0 {
		w.release(a, true)
		return
	}
	w.met.calls++
	a.call = &call{by: a, granted: a.granted, taken: a.taken}
	w.calls[a.job] = append(w.calls[a.job], a.call)
	a.stage, a.until = calling, w.now.Add(time.Duration(w.roll(int64(simTimeout))))
	w.judge(a.job)
}

// release gives a claim up, and either the delivery or only this try.
func (w *world) release(a *agent, gone bool) {
	w.Helper()
	if request, _ := w.lost(); !a.kept && (!request || !gone) {
		w.do(a.node, ask{verb: verbRelease, job: jobOf(a.job), who: a.who, number: a.number})
	}
	a.gone = gone
	a.stage = asking
	a.number++
}

// answer ends a call: it was accepted, did nothing, or is unknown.
func (w *world) answer(a *agent) {
	w.Helper()
	switch w.roll(6) {
	case 0: // the provider was busy: no call was made as far as anybody is concerned
		w.forget(a.call)
		w.release(a, w.roll(2) == 0)
	case 1: // unknown
		a.kept = true
		if !w.take || w.roll(2) == 0 {
			a.gone = true
			return
		}
		a.taken, a.stage = true, asking
		a.number++
	default:
		a.stage, a.until = telling, w.now.Add(simMargin)
	}
}

func (w *world) forget(c *call) {
	kept := w.calls[c.by.job][:0]
	for _, other := range w.calls[c.by.job] {
		if other != c {
			kept = append(kept, other)
		}
	}
	w.calls[c.by.job] = kept
}

func (w *world) tell(a *agent, due bool) {
	w.Helper()
	request, reply := w.lost()
	if request && !due {
		return
	}
	w.noted[a.job] = true
	w.do(a.node, ask{verb: verbDone, job: jobOf(a.job), who: a.who, number: 17})
	if reply && !due {
		return
	}
	w.acked[a.job] = w.now
	a.gone = true
}

// judge counts the calls of a job that may have been done within a window. All
// but the first must have followed one that nobody knew about, and only where
// that was asked for.
func (w *world) judge(job int) {
	w.Helper()
	calls := w.calls[job]
	last := calls[len(calls)-1]
	for _, c := range calls[:len(calls)-1] {
		if last.granted.Sub(c.granted) < simWindow && (!w.take || !last.taken) {
			w.Fatal(fmt.Sprintf("job %d was called twice: claimed by %s, and %v later by %s", job, c.by.who, last.granted.Sub(c.granted), last.by.who))
		}
	}
}
