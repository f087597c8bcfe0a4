package consumer

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"dispatcher/consumer/internal/schedule"
	"dispatcher/consumer/internal/topicname"
	"dispatcher/internal/fault"
)

// Lane is a set of topics whose jobs go before those of the lanes that follow.
type Lane struct {
	Name   string   // 1 to 64 of a-z A-Z 0-9 . _ -
	Topics []string // must exist; a topic belongs to one lane
	// MinShare is the least share of a node's hand-outs that the lane gets while it
	// has jobs ready, whatever the lanes before it have; 0: none. All min shares
	// together are below 1.
	MinShare float64
}

// DefaultLane is what the lane of plain topics is called.
const DefaultLane = "default"

// maxLanes bounds what each hand-out has to look at.
const maxLanes = 16

var laneName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,64}$`)

// inLanes are the lanes in force.
func (o *Options) inLanes() []Lane {
	if len(o.Lanes) > 0 {
		return o.Lanes
	}
	return []Lane{{Name: DefaultLane, Topics: o.Topics}}
}

// jobTopics are the topics of all lanes.
func (o *Options) jobTopics() []string {
	var all []string
	for _, l := range o.inLanes() {
		all = append(all, l.Topics...)
	}
	return all
}

func (o *Options) validateLanes() error {
	var faults []error
	if len(o.Lanes) > 0 && len(o.Topics) > 0 {
		faults = append(faults, fault.New("topics", o.Topics, "must be empty where lanes are given: name them there"))
	}
	if len(o.Lanes) > maxLanes {
		faults = append(faults, fault.New("lanes", len(o.Lanes), fmt.Sprintf("at most %d", maxLanes)))
	}
	var names []string
	sum := 0.0
	for i, l := range o.Lanes {
		at := "lanes." + strconv.Itoa(i)
		if !laneName.MatchString(l.Name) {
			faults = append(faults, fault.New(at+".name", l.Name, "must be 1 to 64 of a-z A-Z 0-9 . _ -"))
		}
		if slices.Contains(names, l.Name) {
			faults = append(faults, fault.New(at+".name", l.Name, "is named twice"))
		}
		if len(l.Topics) == 0 {
			faults = append(faults, fault.New(at+".topics", fault.Phrase("[]"), "at least one is needed"))
		}
		if inside := l.MinShare >= 0 && l.MinShare < 1; !inside { // as is what is no number
			faults = append(faults, fault.New(at+".min_share", l.MinShare, "must be at least 0 and below 1"))
		}
		names, sum = append(names, l.Name), sum+l.MinShare
	}
	if sum >= 1 {
		faults = append(faults, fault.New("lanes", sum, "the shares together must be below 1"))
	}
	return errors.Join(faults...)
}

// layout makes the lanes of a node, and the topics that its jobs come from.
func (o *Options) layout() (lanes []*schedule.Lane, sources []*schedule.Source) {
	for _, l := range o.inLanes() {
		made := schedule.NewLane(l.Name, o.MaxInFlight, l.MinShare)
		lanes = append(lanes, made)
		for _, t := range l.Topics {
			sources = append(sources, &schedule.Source{Topic: t, JobTopic: t, Lane: made})
			for _, delay := range o.RetryTopics {
				sources = append(sources, &schedule.Source{Topic: topicname.Retry(t, delay), JobTopic: t, Lane: made, Delay: delay})
			}
		}
	}
	return lanes, sources
}
