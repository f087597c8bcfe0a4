package embedded_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"dispatcher/internal/background"
	"dispatcher/internal/embedded"
	"dispatcher/internal/provider"
	"dispatcher/internal/redisclient"
	"dispatcher/internal/rules"
	"dispatcher/job"
)

// campaigns writes jobs, every second one of the campaign spring.
func campaigns(t *testing.T, p *embedded.Parts, jobs int) {
	t.Helper()
	var all []job.Record
	for n := range jobs {
		all = append(all, rec(fmt.Sprintf(`{"id":"%s-%d"}`, []string{"spring", "other"}[n%2], n), "campaign", []string{"spring", "other"}[n%2]))
	}
	writeTo(t, p, "jobs", all...)
}

// called is how many calls were made for jobs of a campaign.
func called(p *embedded.Parts, campaign string) (n int) {
	for _, a := range p.Provider.Arrivals() {
		if strings.HasPrefix(a.Key, campaign+"-") {
			n++
		}
	}
	return n
}

// A campaign is cancelled half-way: none of its jobs is called once the nodes know it, and the others lose no slot.
func TestACampaignIsCancelled(t *testing.T) {
	t.Parallel()
	const jobs = 2000
	p := begin(t, embedded.Options{Provider: provider.Options{Behaviour: provider.Behaviour{Latency: 5 * time.Millisecond}}})
	campaigns(t, p, jobs)
	f, err := embedded.NewFleet(p, 2, logger(t), "limits.0.cap=400", "kafka.order=none")
	if err != nil {
		t.Fatal(err)
	}
	stop := background.Run(t, f.Run)
	await(t, func() bool { return p.Provider.Count() > 300 })
	rdb := redisclient.New(redisclient.Options{Addrs: []string{p.RedisAddr()}})
	t.Cleanup(func() { _ = rdb.Close() })
	store := rules.NewStore(rdb, "default")
	if _, _, err := store.Add(t.Context(), rules.Rule{Kind: rules.Cancel, When: `job.headers["campaign"] == "spring"`, By: "anna", Why: "wrong price"}, time.Hour); err != nil {
		t.Fatal(err)
	}
	before := p.Provider.Count()
	settle(t, p)
	stop()
	spring, other := called(p, "spring"), called(p, "other")
	if other != jobs/2 {
		t.Errorf("got %d calls of the other jobs, want each of %d once", other, jobs/2)
	}
	if dead := int(p.Dead()); spring+dead != jobs/2 || dead == 0 {
		t.Errorf("got %d jobs of the campaign called and %d dead letters, want %d together", spring, dead, jobs/2)
	}
	// Slots of the horizon, and what went on while the rule was made.
	if late := spring - before/2; late > 400 {
		t.Errorf("got %d calls of the campaign after it was cancelled, want no more than those of a second", late)
	}
}

// Held jobs wait, others go past them, and they are called once the rule has ended.
func TestHeldJobsWaitForTheEndOfTheRule(t *testing.T) {
	t.Parallel()
	const jobs = 400
	p := begin(t, embedded.Options{Provider: provider.Options{Behaviour: provider.Behaviour{Latency: 5 * time.Millisecond}}})
	rdb := redisclient.New(redisclient.Options{Addrs: []string{p.RedisAddr()}})
	t.Cleanup(func() { _ = rdb.Close() })
	store := rules.NewStore(rdb, "default")
	rule, revision, err := store.Add(t.Context(), rules.Rule{Kind: rules.Hold, When: `job.headers["campaign"] == "spring"`, By: "anna"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	f, err := embedded.NewFleet(p, 2, logger(t), "limits.0.cap=400", "kafka.order=none")
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, f.Run)
	await(t, func() bool {
		for _, n := range f.Nodes {
			if n.Rules() < revision {
				return false
			}
		}
		return true
	})
	campaigns(t, p, jobs)
	await(t, func() bool { return called(p, "other") == jobs/2 })
	if n := called(p, "spring"); n != 0 {
		t.Errorf("got %d calls of held jobs, want none", n)
	}
	if _, _, err := store.End(t.Context(), rule.ID, "anna", ""); err != nil {
		t.Fatal(err)
	}
	settle(t, p)
	if n := called(p, "spring"); n != jobs/2 || p.Dead() != 0 {
		t.Errorf("got %d calls and %d dead letters, want all %d called after the rule has ended", n, p.Dead(), jobs/2)
	}
}
