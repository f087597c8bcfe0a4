package consumer

import (
	"time"

	"dispatcher/consumer/internal/topicname"
)

// Lane is a set of topics whose jobs go before those of the lanes that follow.
type Lane struct {
	Name   string   `yaml:"name"`   // 1 to 64 of a-z A-Z 0-9 . _ -
	Topics []string `yaml:"topics"` // must exist; a topic belongs to one lane
	// MinShare is the least share of a node's hand-outs that the lane gets while it
	// has jobs ready, whatever the lanes before it have; 0: none. All min shares
	// together are below 1.
	MinShare float64 `yaml:"min_share"`
}

// DefaultLane is what the lane of plain topics is called.
const DefaultLane = "default"

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

// feed is a topic that jobs come from.
type feed struct {
	topic string
	of    string // the job topic it belongs to; itself, if it is one
	lane  *lane
	tier  time.Duration // how long its records wait; 0: it is a job topic
}

// layout makes the lanes and feeds of a node.
func (o *Options) layout() (lanes []*lane, feeds []*feed) {
	for _, l := range o.inLanes() {
		made := &lane{name: l.Name, limit: o.MaxInFlight, minShare: l.MinShare}
		lanes = append(lanes, made)
		for _, t := range l.Topics {
			feeds = append(feeds, &feed{topic: t, of: t, lane: made})
			for _, tier := range o.RetryTopics {
				feeds = append(feeds, &feed{topic: topicname.Retry(t, tier), of: t, lane: made, tier: tier})
			}
		}
	}
	return lanes, feeds
}
