package configs

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	maxLanes = 16
	maxTiers = 8
)

var laneName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// named is a topic and where it is named.
type named struct{ path, topic string }

// topicsOf lists the job topics with their places.
func topicsOf(k Kafka) []named {
	var all []named
	for i, topic := range k.Topics {
		all = append(all, named{"kafka.topics." + strconv.Itoa(i), topic})
	}
	for i, lane := range k.Lanes {
		for j, topic := range lane.Topics {
			all = append(all, named{"kafka.lanes." + strconv.Itoa(i) + ".topics." + strconv.Itoa(j), topic})
		}
	}
	return all
}

func (f *faults) topics(k Kafka) {
	f.refuse(len(k.Topics) == 0 && len(k.Lanes) == 0, "kafka.topics", k.Topics, "name at least one")
	topics := k.JobTopics()
	for i, n := range topicsOf(k) {
		f.refuse(!topicName.MatchString(n.topic) || n.topic == "." || n.topic == "..", n.path, n.topic,
			"must be 1 to 245 letters, digits and . _ -")
		f.refuse(slices.Index(topics, n.topic) < i, n.path, n.topic, "is named twice")
	}
}

// maxTopicBytes is what Kafka takes.
const maxTopicBytes = 249

// companion is a topic that is named after a job topic.
type companion struct {
	ends  string
	holds string
	with  string // the setting by which it is there; empty: always
}

func companionsOf(c Config) []companion {
	all := []companion{{ends: ".dlq", holds: "dead letters"}}
	if c.Kafka.Results {
		all = append(all, companion{".results", "results", "kafka.results"})
	}
	if c.Sender.OnUnknown == UnknownPark {
		all = append(all, companion{".parked", "parked jobs", "sender.on_unknown: park"})
	}
	return all
}

// companions: none may be a topic of jobs itself, or what it holds would become
// jobs.
func (f *faults) companions(c Config) {
	topics := c.Kafka.JobTopics()
	for _, also := range companionsOf(c) {
		most := maxTopicBytes - len(also.ends)
		for _, n := range topicsOf(c.Kafka) {
			f.refuse(also.with != "" && len(n.topic) > most, n.path, n.topic, "must be at most %d characters with %s", most, also.with)
			of, is := strings.CutSuffix(n.topic, also.ends)
			f.refuse(is && slices.Contains(topics, of), n.path, n.topic, "is where the %s of %s go", also.holds, of)
		}
	}
}

func (f *faults) lanes(k Kafka) {
	f.refuse(len(k.Topics) > 0 && len(k.Lanes) > 0, "kafka.topics", k.Topics, "must be empty with kafka.lanes: name the topics there")
	f.refuse(len(k.Lanes) > maxLanes, "kafka.lanes", count(len(k.Lanes)), "at most %d", maxLanes)
	var names []string
	sum := 0.0
	for i, lane := range k.Lanes {
		path := "kafka.lanes." + strconv.Itoa(i)
		f.refuse(!laneName.MatchString(lane.Name), path+".name", lane.Name, "must be 1 to 64 letters, digits and . _ -")
		f.refuse(slices.Contains(names, lane.Name), path+".name", lane.Name, "is named twice")
		f.refuse(len(lane.Topics) == 0, path+".topics", lane.Topics, "name at least one")
		inside := lane.MinShare >= 0 && lane.MinShare < 1 // false for what is no number
		f.refuse(!inside, path+".min_share", lane.MinShare, "must be at least 0 and below 1")
		names, sum = append(names, lane.Name), sum+lane.MinShare
	}
	f.refuse(sum >= 1, "kafka.lanes", phrase("min_shares of "+strconv.FormatFloat(sum, 'g', 4, 64)+" together"), "must be below 1")
}

// tiers leaves names that are too long to the consumer, which makes them.
func (f *faults) tiers(k Kafka) {
	f.refuse(len(k.RetryTopics) > maxTiers, "kafka.retry_topics", count(len(k.RetryTopics)), "at most %d", maxTiers)
	before := time.Duration(0)
	for i, text := range k.RetryTopics {
		path := "kafka.retry_topics." + strconv.Itoa(i)
		d, err := time.ParseDuration(text)
		f.refuse(err != nil || d < time.Second || d > time.Hour || d%time.Second != 0, path, text, "must be whole seconds from 1s to 1h")
		f.refuse(err == nil && d <= before, path, text, "must be longer than the one before it")
		before = d
	}
	topics := k.JobTopics()
	for _, n := range topicsOf(k) {
		of, _, tier := strings.Cut(n.topic, ".retry.")
		f.refuse(tier && len(k.RetryTopics) > 0 && slices.Contains(topics, of), n.path, n.topic, "is where delayed jobs of %s may go", of)
	}
}
