package broker

import (
	"crypto/tls"
	"errors"

	"dispatcher/consumer/internal/auth"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Permanent tells whether an error won't pass by itself: the broker answered that the
// configuration is wrong, or the credential or certificate can't be used.
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

// KafkaError converts an error of kgo into kafka-go's, which all callers use.
func KafkaError(err error) error {
	if e, ok := errors.AsType[*kerr.Error](err); ok {
		return kafka.Error(e.Code)
	}
	return err
}

// TooLarge tells whether the broker or kgo refused a batch because of its size.
func TooLarge(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge)
}

// Answered tells whether the broker answered, with an error or without.
func Answered(err error) bool {
	_, answered := errors.AsType[kafka.Error](err)
	return err == nil || answered || errors.Is(err, ErrNoTopicIDs)
}
