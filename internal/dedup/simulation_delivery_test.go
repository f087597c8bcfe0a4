package dedup

import (
	"fmt"
	"time"
)

type stage int

const (
	claiming stage = iota
	claimed
	calling
	recording
)

// delivery is one delivery of a job, and its stage.
type delivery struct {
	node      *script
	job       int
	owner     string
	stage     stage
	number    int64
	granted   time.Time
	useBy     time.Time
	taken     bool
	keepClaim bool
	frozen    bool
	call      *call
	until     time.Time // when its next step is due, unless it is frozen
	gone      bool
}

// step makes the delivery's next step. If it is due, no message is lost.
func (w *simulation) step(a *delivery, due bool) {
	w.Helper()
	switch a.stage {
	case claiming:
		w.claim(a)
	case claimed:
		w.begin(a)
	case calling:
		w.answer(a)
	case recording:
		w.recordDone(a, due)
	}
}

func (w *simulation) claim(a *delivery) {
	w.Helper()
	noRequest, noReply := w.lost()
	if noRequest {
		return
	}
	r := w.do(a.node, request{verb: verbClaim, job: jobOf(a.job), owner: a.owner, number: a.number})
	if r.code == codeTaken || r.code == codeUnknown {
		w.nobodyCalls(a)
	}
	if r.code == codeTaken {
		a.taken, a.keepClaim = true, true // also if the reply is lost: the next one is "granted"
	}
	if noReply {
		return
	}
	switch r.code {
	case codeGranted, codeTaken:
		a.stage, a.granted, a.useBy = claimed, w.now, w.now.Add(simMargin)
		if at := w.acked[a.job]; !at.IsZero() && w.now.Sub(at) < simWindow {
			w.Fatal(fmt.Sprintf("job %d was granted %v after Redis had acknowledged that it was done", a.job, w.now.Sub(at)))
		}
	case codeSent:
		if !w.noted[a.job] {
			w.Fatal(fmt.Sprintf("job %d counts as sent, but no done has reached Redis", a.job))
		}
		w.counts.sent++
		a.gone = true
	case codeUnknown:
		w.counts.unknown++
		a.gone = true // parked
	case codeBusy:
		a.number++
	}
}

// nobodyCalls fails if a job is unknown while a call of it is under way.
func (w *simulation) nobodyCalls(by *delivery) {
	w.Helper()
	for _, a := range w.deliveries {
		if a != by && a.job == by.job && !a.gone && !a.frozen && (a.stage == calling || a.stage == recording) {
			w.Fatal(fmt.Sprintf("job %d is unknown, and its call is under way since %v", a.job, w.now.Sub(a.granted)))
		}
	}
}

// begin writes the call, or gives it up.
func (w *simulation) begin(a *delivery) {
	if !w.now.Before(a.useBy) {
		a.stage = claiming
		a.number++
		return
	}
	if w.roll(4) == 0 {
		w.release(a, true)
		return
	}
	w.counts.calls++
	a.call = &call{by: a, granted: a.granted, taken: a.taken}
	w.calls[a.job] = append(w.calls[a.job], a.call)
	a.stage, a.until = calling, w.now.Add(time.Duration(w.roll(int64(simTimeout))))
	w.checkCalls(a.job)
}

// release gives a claim up, and either the delivery or only this attempt.
func (w *simulation) release(a *delivery, gone bool) {
	w.Helper()
	if noRequest, _ := w.lost(); !a.keepClaim && (!noRequest || !gone) {
		w.do(a.node, request{verb: verbRelease, job: jobOf(a.job), owner: a.owner, number: a.number})
	}
	a.gone = gone
	a.stage = claiming
	a.number++
}

// answer ends a call: it was accepted, did nothing, or is unknown.
func (w *simulation) answer(a *delivery) {
	w.Helper()
	switch w.roll(6) {
	case 0: // the provider was busy, and did nothing
		w.forget(a.call)
		w.release(a, w.roll(2) == 0)
	case 1: // unknown
		a.keepClaim = true
		if !w.takeOver || w.roll(2) == 0 {
			a.gone = true
			return
		}
		a.taken, a.stage = true, claiming
		a.number++
	default:
		a.stage, a.until = recording, w.now.Add(simMargin)
	}
}

func (w *simulation) forget(c *call) {
	kept := w.calls[c.by.job][:0]
	for _, other := range w.calls[c.by.job] {
		if other != c {
			kept = append(kept, other)
		}
	}
	w.calls[c.by.job] = kept
}

func (w *simulation) recordDone(a *delivery, due bool) {
	w.Helper()
	noRequest, noReply := w.lost()
	if noRequest && !due {
		return
	}
	w.noted[a.job] = true
	w.do(a.node, request{verb: verbDone, job: jobOf(a.job), owner: a.owner, number: 17})
	if noReply && !due {
		return
	}
	w.acked[a.job] = w.now
	a.gone = true
}

// checkCalls fails if a job was called twice within a window, unless the earlier call
// was unknown and such jobs are taken over.
func (w *simulation) checkCalls(job int) {
	w.Helper()
	calls := w.calls[job]
	last := calls[len(calls)-1]
	for _, c := range calls[:len(calls)-1] {
		if last.granted.Sub(c.granted) < simWindow && (!w.takeOver || !last.taken) {
			w.Fatal(fmt.Sprintf("job %d was called twice: claimed by %s, and %v later by %s", job, c.by.owner, last.granted.Sub(c.granted), last.by.owner))
		}
	}
}
