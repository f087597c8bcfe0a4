package consumer

import (
	"dispatcher/consumer/internal/schedule"
	"dispatcher/consumer/internal/topicname"
	"dispatcher/internal/expression"
	"dispatcher/job"
)

// Lane is a set of topics whose jobs go before those of the lanes that follow.
type Lane struct {
	Name   string   `yaml:"name"`   // 1 to 64 of a-z A-Z 0-9 . _ -
	Topics []string `yaml:"topics"` // must exist; a topic belongs to one lane
	// MinShare is the least share of the fleet's slots that the lane gets while it has
	// jobs ready, however many jobs the lanes before it have; 0: none. All min shares
	// together are below 1. Whoever asks for slots keeps it; the consumer does not.
	MinShare float64 `yaml:"min_share"`
	// Fair is an expression that gives the tenant of a job. Tenants take turns, by their weights. Empty: jobs go in the
	// order of their partitions.
	Fair string `yaml:"fair"`
}

// DefaultLane is the name of the lane of plain topics.
const DefaultLane = "default"

// lanes are those of Lanes, or one for Topics.
func (o *Options) lanes() []Lane {
	if len(o.Lanes) > 0 {
		return o.Lanes
	}
	return []Lane{{Name: DefaultLane, Topics: o.Topics}}
}

// jobTopics are the topics of all lanes.
func (o *Options) jobTopics() []string {
	var all []string
	for _, l := range o.lanes() {
		all = append(all, l.Topics...)
	}
	return all
}

// layout makes the lanes of a node, and the topics that its jobs come from.
func (o *Options) layout() (lanes []*schedule.Lane, sources []*schedule.Source) {
	for _, l := range o.lanes() {
		made := schedule.NewLane(l.Name, o.Workers)
		if l.Fair != "" {
			made = schedule.NewFairLane(l.Name, o.Workers)
		}
		lanes = append(lanes, made)
		for _, t := range l.Topics {
			tenant := l.tenantOf(t)
			sources = append(sources, &schedule.Source{Topic: t, JobTopic: t, Lane: made, Tenant: tenant})
			for _, delay := range o.RetryTopics {
				sources = append(sources, &schedule.Source{Topic: topicname.Retry(t, delay), JobTopic: t, Lane: made, Delay: delay, Tenant: tenant})
			}
		}
	}
	return lanes, sources
}

// tenantOf names the tenant of a job of a topic; nil: the lane is not fair.
func (l Lane) tenantOf(topic string) func(*job.Job) (string, error) {
	if l.Fair == "" {
		return nil
	}
	key, err := expression.CompileKey(l.Fair)
	return func(j *job.Job) (string, error) {
		if err != nil { // Options.Validate has refused it
			return "", err
		}
		return key.Of(expression.JobOf(j, l.Name, topic))
	}
}
