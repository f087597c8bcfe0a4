package consumer

import (
	"errors"
	"fmt"
	"time"

	"dispatcher/consumer/internal/topicname"
	"dispatcher/internal/fault"
)

const (
	minRetryDelay  = time.Second
	maxRetryDelay  = time.Hour
	maxRetryTopics = 8
)

func validateRetryTopics(delays []time.Duration) error {
	var faults []error
	if len(delays) > maxRetryTopics {
		faults = append(faults, fault.New("retry_topics", len(delays), fmt.Sprintf("at most %d", maxRetryTopics)))
	}
	for i, t := range delays {
		if t < minRetryDelay || t > maxRetryDelay || t%time.Second != 0 {
			faults = append(faults, fault.New("retry_topics", t, "must be whole seconds from 1s to 1h"))
		}
		if i > 0 && t <= delays[i-1] {
			faults = append(faults, fault.New("retry_topics", t, fmt.Sprintf("must be longer than %v before it", delays[i-1])))
		}
	}
	return errors.Join(faults...)
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
	for _, t := range o.RetryTopics {
		all = append(all, topicname.Retry(topic, t))
	}
	return all
}
