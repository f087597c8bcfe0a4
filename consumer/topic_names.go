package consumer

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"time"

	"dispatcher/consumer/internal/topicname"
	"dispatcher/internal/expression"
	"dispatcher/internal/fault"
)

const (
	maxLanes       = 16 // each hand-out checks all of them
	maxRetryTopics = 8
)

var laneName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,64}$`)

// isJobTopic tells whether a topic of jobs can have the name. That of its dead-letter topic
// must be valid, too.
func isJobTopic(name string) bool {
	return topicname.Valid(name) && topicname.Valid(topicname.Dead(name))
}

func (o *Options) checkLanes(l *fault.List) {
	l.Refuse(len(o.Lanes) > 0 && len(o.Topics) > 0, "topics", o.Topics, "must be empty with kafka.lanes: name the topics there")
	l.Refuse(len(o.Lanes) > maxLanes, "lanes", fault.Entries(len(o.Lanes)), "at most %d", maxLanes)
	var names []string
	sum := 0.0
	for i, lane := range o.Lanes {
		at := "lanes." + strconv.Itoa(i)
		l.Refuse(!laneName.MatchString(lane.Name), at+".name", lane.Name, "must be 1 to 64 letters, digits and . _ -")
		l.Refuse(slices.Contains(names, lane.Name), at+".name", lane.Name, "is named twice")
		l.Refuse(len(lane.Topics) == 0, at+".topics", lane.Topics, "name at least one")
		inside := lane.MinShare >= 0 && lane.MinShare < 1 // false for NaN
		l.Refuse(!inside, at+".min_share", lane.MinShare, "must be at least 0 and below 1")
		if lane.Fair != "" {
			_, err := expression.CompileKey(lane.Fair)
			if bad, ok := errors.AsType[*expression.Error](err); ok {
				l.Refuse(true, at+".fair", lane.Fair, "%s", bad.Reason)
			}
			l.Refuse(o.Order == OrderPartition, at+".fair", lane.Fair, "must be empty with kafka.order: partition, where no job passes another one of its partition")
		}
		names, sum = append(names, lane.Name), sum+lane.MinShare
	}
	l.Refuse(sum >= 1, "lanes", fault.Phrase("min_shares of "+strconv.FormatFloat(sum, 'g', 4, 64)+" together"), "must be below 1")
}

// placedTopic is a topic of jobs and the key that names it.
type placedTopic struct{ key, topic string }

func (o *Options) placedTopics() []placedTopic {
	var all []placedTopic
	for i, topic := range o.Topics {
		all = append(all, placedTopic{"topics." + strconv.Itoa(i), topic})
	}
	for i, lane := range o.Lanes {
		for j, topic := range lane.Topics {
			all = append(all, placedTopic{"lanes." + strconv.Itoa(i) + ".topics." + strconv.Itoa(j), topic})
		}
	}
	return all
}

// checkTopics also refuses a topic of jobs that is derived from another one: its records
// would become jobs.
func (o *Options) checkTopics(l *fault.List) {
	l.Refuse(len(o.Topics) == 0 && len(o.Lanes) == 0, "topics", o.Topics, "name at least one")
	all := o.placedTopics()
	var topics []string
	for _, t := range all {
		topics = append(topics, t.topic)
	}
	suffix := o.longestSuffix()
	for i, t := range all {
		fits := isJobTopic(t.topic)
		l.Refuse(!fits, t.key, t.topic, "must be 1 to 245 letters, digits and . _ -")
		l.Refuse(slices.Contains(topics[:i], t.topic), t.key, t.topic, "is named twice")
		of, holds := o.derivedFrom(t.topic, topics)
		l.Refuse(holds != "", t.key, t.topic, "is where the %s of %s go", holds, of)
		l.Refuse(fits && len(t.topic)+len(suffix) > topicname.MaxLength, t.key, t.topic,
			"must be at most %d characters: %s is added to it, and Kafka takes %d", topicname.MaxLength-len(suffix), suffix, topicname.MaxLength)
	}
}

// derivedFrom returns that of the topics which a topic is derived from, and the records it
// holds; empty: it is derived from none of them.
func (o *Options) derivedFrom(topic string, topics []string) (of, holds string) {
	for _, of := range topics {
		switch {
		case topic == topicname.Dead(of):
			return of, "dead letters"
		case topic == topicname.Parked(of) && o.ParkUnknown:
			return of, "parked jobs"
		case topic == topicname.Results(of) && o.Results:
			return of, "results"
		case topicname.IsRetryOf(of, topic) && len(o.RetryTopics) > 0:
			return of, "delayed jobs"
		}
	}
	return "", ""
}

// longestSuffix is the longest that is added to a topic for one of its derived topics.
func (o *Options) longestSuffix() string {
	return slices.MaxFunc(o.derivedTopics(""), func(a, b string) int { return len(a) - len(b) })
}

func checkRetryTopics(l *fault.List, delays []time.Duration) {
	l.Refuse(len(delays) > maxRetryTopics, "retry_topics", fault.Entries(len(delays)), "at most %d", maxRetryTopics)
	before := time.Duration(0)
	for i, d := range delays {
		key := "retry_topics." + strconv.Itoa(i)
		l.Refuse(d < time.Second || d > time.Hour || d%time.Second != 0, key, d, "must be whole seconds from 1s to 1h")
		l.Refuse(d <= before, key, d, "must be longer than the one before it")
		before = d
	}
}

// sourceTopics are a topic of jobs and its retry topics: the ones that are read.
func (o *Options) sourceTopics(topic string) []string {
	all := []string{topic}
	for _, delay := range o.RetryTopics {
		all = append(all, topicname.Retry(topic, delay))
	}
	return all
}

// derivedTopics are the topics that are derived from a topic of jobs.
func (o *Options) derivedTopics(topic string) []string {
	all := []string{topicname.Dead(topic)}
	if o.ParkUnknown {
		all = append(all, topicname.Parked(topic))
	}
	if o.Results {
		all = append(all, topicname.Results(topic))
	}
	return append(all, o.sourceTopics(topic)[1:]...)
}

// allTopics are the topics of jobs with their derived topics.
func (o *Options) allTopics() []string {
	var all []string
	for _, t := range o.jobTopics() {
		all = append(append(all, t), o.derivedTopics(t)...)
	}
	return all
}
