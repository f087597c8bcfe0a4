package broker

import (
	"crypto/tls"
	"errors"

	"dispatcher/consumer/internal/auth"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Permanent tells whether trying again can't help: the broker answered, and
// what it says is that the configuration is wrong.
func Permanent(err error) bool {
	if _, bad := errors.AsType[*tls.CertificateVerificationError](err); bad || errors.Is(err, auth.ErrUnsuitable) {
		return true
	}
	for _, e := range []kafka.Error{
		kafka.SASLAuthenticationFailed, kafka.UnsupportedSASLMechanism, kafka.IllegalSASLState,
		kafka.TopicAuthorizationFailed, kafka.GroupAuthorizationFailed, kafka.ClusterAuthorizationFailed,
		kafka.InvalidGroupId, kafka.InvalidSessionTimeout, kafka.InconsistentGroupProtocol,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// KafkaError is an error of kgo in the terms of kafka-go, which the package
// uses everywhere else.
func KafkaError(err error) error {
	if e, ok := errors.AsType[*kerr.Error](err); ok {
		return kafka.Error(e.Code)
	}
	return err
}

// TooLarge tells whether a broker, or the client before it, refused a batch for
// its size.
func TooLarge(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge)
}

// Answered tells whether a broker has answered, whatever it said.
func Answered(err error) bool {
	_, answered := errors.AsType[kafka.Error](err)
	return err == nil || answered || errors.Is(err, ErrNoTopicIDs)
}
