package consumer_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dispatcher/consumer"
	"dispatcher/job"
)

// nap has a job sleep after a failed call.
func nap(d *consumer.Delivery, wait time.Duration, early bool) {
	d.Sleep(consumer.SleepOptions{Until: time.Now().Add(wait), WakeEarly: early, Failed: true, Attempts: consumer.Attempts{Calls: 2, Failures: 1}, Memo: "memo"})
}

// A job that sleeps holds no place in flight, and its key or partition at most. It comes back
// at its time with the attempts and the memo that its worker left.
func TestASleepingJobHoldsItsKeyAtMost(t *testing.T) {
	t.Parallel()
	for order, want := range map[consumer.Order]string{
		consumer.OrderKey: "b1 a1 a2", consumer.OrderPartition: "a1 a2 b1", consumer.OrderNone: "a2 b1 a1",
	} {
		bubble(t, 1, func(w *fleet) {
			w.produce("jobs", keyed("a", "a1"), keyed("a", "a2"), keyed("b", "b1"))
			o := w.options()
			o.Order, o.Workers = order, 1
			var begun time.Time
			n := w.start(o, func(d *consumer.Delivery) {
				if string(d.Job.Value) == "a1" && d.Memo() == nil {
					begun = time.Now()
					nap(d, 30*time.Second, false)
					return
				}
				if string(d.Job.Value) == "a1" {
					if got := d.Attempts(); got != (consumer.Attempts{Calls: 2, Failures: 1}) || d.Memo() != "memo" || time.Since(begun) != 30*time.Second {
						t.Errorf("got attempts %+v and memo %v after %v, want 2 calls, 1 failure and the memo after 30s", got, d.Memo(), time.Since(begun))
					}
				}
				d.Done(consumer.Outcome{})
			})
			w.until("a1 sleeps", func() bool { s := n.c.Status().Lanes[0]; return s.Asleep == 1 && s.InFlight == 0 })
			w.until("all offsets are committed", func() bool { got, _ := w.committed("jobs", 0); return got == 3 })
			w.ok(n.end())
			if got := strings.Join(n.values(), " "); got != "a1 "+want {
				t.Errorf("order %s: got %s, want a1 %s", order, got, want)
			}
		})
	}
}

// A stop releases sleeping jobs at once. The commit leaves their offsets open, so that these
// jobs are handed out again, and no others.
func TestAStopReleasesWhatSleeps(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 6)...)
		work := func(d *consumer.Delivery) {
			if v := string(d.Job.Value); v == "1" || v == "3" {
				nap(d, time.Hour, true)
				return
			}
			d.Done(consumer.Outcome{})
		}
		n := w.start(w.options(), work)
		w.until("two sleep", func() bool { s := n.c.Status().Lanes[0]; return s.Asleep == 2 && s.InFlight == 0 && s.Waiting == 0 })
		begun := time.Now()
		w.ok(n.end())
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("the end took %v, want no wait for sleeping jobs", took)
		}
		if got, metadata := w.committed("jobs", 0); got != 1 || metadata == "" {
			t.Errorf("got offset %d committed with metadata %q, want 1 and a bitmap", got, metadata)
		}
		again := w.start(w.options(), settled)
		w.until("all offsets are committed", func() bool { got, _ := w.committed("jobs", 0); return got == 6 })
		w.ok(again.end())
		if got := again.values(); !slices.Equal(got, []string{"1", "3"}) {
			t.Errorf("got %v handed out again, want those that slept", got)
		}
	})
}

// A job that goes to sleep when its partition is being taken away is released.
func TestAJobThatGoesToSleepInADrainIsReleased(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 1)...)
		o := w.options()
		o.MaxAsleep = 1
		n := w.start(o, nil)
		d := n.holding(1)[0]
		n.stop()
		<-d.Context().Done()
		synctest.Wait() // the partition drains a little later
		nap(d, time.Hour, false)
		begun := time.Now()
		w.ok(<-n.err)
		if took := time.Since(begun); took > 2*time.Second || n.c.SleepersFull() {
			t.Errorf("the end took %v and some sleep after it: %v, want none", took, n.c.SleepersFull())
		}
	})
}

// Wake ends the sleeps that may end early, and no others.
func TestWakeEndsTheSleepsThatMayEndEarly(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 4)...)
		n := w.start(w.options(), nil)
		for i, d := range n.holding(4) {
			nap(d, time.Hour, i%2 == 0)
		}
		n.c.Wake()
		for _, d := range n.holding(2) {
			d.Done(consumer.Outcome{})
		}
		w.ok(n.end())
		if got := n.values()[4:]; !slices.Equal(got, []string{"0", "2"}) {
			t.Errorf("got %v woken, want 0 and 2", got)
		}
	})
}

// A job whose not-after passes while it sleeps goes to the dead letters then.
func TestASleepingJobExpires(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		late := job.Record{Value: []byte("late"), Headers: []job.Header{header("not-after", time.Now().Add(20*time.Second).Format(time.RFC3339Nano))}}
		w.produce("jobs", late)
		begun := time.Now()
		n := w.start(w.options(), func(d *consumer.Delivery) { nap(d, time.Hour, false) })
		w.until("it is settled", func() bool { got, _ := w.committed("jobs", 0); return got == 1 })
		if took := time.Since(begun); took < 20*time.Second || took > 25*time.Second {
			t.Errorf("it was settled after %v, want 20s", took)
		}
		w.ok(n.end())
		if letters := w.letters("jobs"); len(letters) != 1 || headerMap(letters[0])["x-error-class"] != "expired" || headerMap(letters[0])["x-attempt"] != "2" {
			t.Errorf("got dead letters %v, want it expired after 2 calls", letters)
		}
	})
}

// No more jobs sleep than may, in number or in bytes. No new one is handed out until one of
// them is settled.
func TestBoundsOfSleep(t *testing.T) {
	t.Parallel()
	for name, bound := range map[string]func(*consumer.Options){
		"jobs":  func(o *consumer.Options) { o.MaxAsleep = 3 },
		"bytes": func(o *consumer.Options) { o.MaxAsleepBytes = 2<<10 + 512 },
	} {
		for _, order := range []consumer.Order{consumer.OrderKey, consumer.OrderPartition, consumer.OrderNone} {
			bubble(t, 3, func(w *fleet) {
				var records []job.Record
				for i := range 30 {
					records = append(records, keyed(string(rune('a'+i)), strings.Repeat("x", 600)))
				}
				w.produce("jobs", records...)
				o := w.options()
				o.Order, o.Workers = order, 1
				bound(&o)
				n := w.start(o, func(d *consumer.Delivery) { nap(d, 30*time.Second, true) })
				time.Sleep(20 * time.Second)
				if got := len(n.values()); got != 3 || !n.c.SleepersFull() {
					t.Errorf("%s, order %s: got %d jobs handed out and sleepers full %v, want 3 and true", name, order, got, n.c.SleepersFull())
				}
				w.ok(n.end())
			})
		}
	}
}

// Below the bound jobs that sleep stop none behind them, however many bytes of one partition they take.
func TestBelowTheBoundsOfSleepOthersPass(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		const jobs = 120 // three times as many bytes as a partition may hold back: a fetch and a full lane come beside these
		for range jobs {
			w.produce("jobs", job.Record{Value: noise('q', 100_000)})
		}
		w.produce("jobs", job.Record{Value: []byte("behind")})
		n := w.start(w.options(), func(d *consumer.Delivery) {
			if d.Job.Value[0] == 'q' {
				nap(d, 24*time.Hour, false)
				return
			}
			d.Done(consumer.Outcome{})
		})
		w.until("the job behind them is handed out", func() bool { return slices.Contains(n.values(), "behind") })
		if got := n.c.Status().Lanes[0].Asleep; got != jobs {
			t.Errorf("got %d jobs asleep, want %d", got, jobs)
		}
		w.ok(n.end())
	})
}

// Beyond the bound a sample of the fetched jobs is still handed out. When a job that slept is
// settled, the others go on.
func TestBeyondTheBoundsOfSleep(t *testing.T) {
	t.Parallel()
	bubble(t, 2, func(w *fleet) {
		w.produce("jobs", numbered(0, 40)...)
		o := w.options()
		o.MaxAsleep, o.Workers, o.Order = 4, 1, consumer.OrderNone
		var said strings.Builder
		o.Logger = slog.New(slog.NewTextHandler(&said, nil))
		n := w.idle(o)
		var asleep []string
		for len(asleep) < 4 {
			if d := n.c.Take(); d != nil {
				asleep = append(asleep, string(d.Job.Value))
				nap(d, time.Hour, true)
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		d := n.c.TakeSample()
		if d == nil || slices.Contains(asleep, string(d.Job.Value)) || d.Memo() != nil {
			t.Fatalf("got sample %v, want a job that has not failed", d)
		}
		d.Done(consumer.Outcome{})
		n.c.Wake()
		handled := 0
		w.until("all are handed out", func() bool {
			for d := n.c.Take(); d != nil; d = n.c.Take() {
				handled++
				d.Done(consumer.Outcome{})
			}
			return handled == 39
		})
		w.ok(n.end())
		for _, want := range []string{"as many jobs sleep in memory as may", "fewer jobs sleep in memory than may"} {
			if got := strings.Count(said.String(), want); got != 1 {
				t.Errorf("got %d log lines with %q, want 1", got, want)
			}
		}
	})
}

// Among many jobs a sample comes from behind the first ones, also again and again.
func TestSamplesComeFromAnywhere(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		const jobs = 500
		w.produce("jobs", numbered(0, jobs)...)
		o := w.options()
		o.Workers, o.Order = 4, consumer.OrderNone
		n := w.idle(o)
		w.until("some are ready", func() bool { return n.c.ReadyJobs() > 0 })
		time.Sleep(time.Second) // and all are fetched
		behind := 0
		for range 20 {
			d := n.c.TakeSample()
			if d.Job.Offset >= jobs/2 {
				behind++
			}
			d.Done(consumer.Outcome{})
		}
		if behind < 3 || behind > 17 {
			t.Errorf("got %d of 20 samples from the second half, want about half", behind)
		}
		w.ok(n.end())
	})
}

// Where only jobs that are ready are left, a sample is the first of them that has
// not failed; and where all have failed, there is one all the same.
func TestASampleHasNotFailed(t *testing.T) {
	t.Parallel()
	bubble(t, 1, func(w *fleet) {
		w.produce("jobs", numbered(0, 4)...)
		o := w.options()
		o.Order = consumer.OrderNone
		n := w.idle(o)
		w.until("all are ready", func() bool { return n.c.ReadyJobs() == 4 })
		for range 2 {
			nap(n.c.Take(), time.Second, true)
		}
		time.Sleep(2 * time.Second) // they are ready again, behind the others
		first := n.c.Take()         // 2
		var got []string
		for d := n.c.TakeSample(); d != nil; d = n.c.TakeSample() {
			got = append(got, string(d.Job.Value))
			d.Done(consumer.Outcome{})
		}
		first.Done(consumer.Outcome{})
		if want := []string{"3", "0", "1"}; !slices.Equal(got, want) {
			t.Errorf("got samples %v, want %v", got, want)
		}
		w.ok(n.end())
	})
}
