package auth

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"dispatcher/internal/clip"
	"dispatcher/internal/fault"

	"github.com/segmentio/kafka-go/sasl"
)

const (
	oauthName = "OAUTHBEARER"

	// maxTokenBytes bounds a token. Brokers accept a first message of half a MiB.
	maxTokenBytes = 64 << 10
)

// The characters of a token and of an extension's name and value (RFC 6750, 2.1; RFC 7628,
// 3.1). None may hold \x01, which ends each field of the message.
var (
	oauthToken     = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)
	extensionName  = regexp.MustCompile(`^[A-Za-z]{1,64}$`)
	extensionValue = regexp.MustCompile(`^[\x20-\x7e\t\r\n]{1,1000}$`)
)

// oauthBearer is the mechanism OAUTHBEARER (RFC 7628), as Kafka uses it.
type oauthBearer struct{ first []byte }

// newOAuthBearer makes the mechanism for one token. Its errors don't show the token.
func newOAuthBearer(token string, extensions map[string]string) (sasl.Mechanism, error) {
	if len(token) > maxTokenBytes || !oauthToken.MatchString(token) {
		return nil, fmt.Errorf("%w: a token of %d bytes: must be 1 to %d letters, digits and . _ ~ + / - =", ErrUnsuitable, len(token), maxTokenBytes)
	}
	first := []byte("n,,\x01auth=Bearer " + token + "\x01")
	for _, name := range slices.Sorted(maps.Keys(extensions)) {
		first = append(first, name+"="+extensions[name]+"\x01"...)
	}
	return oauthBearer{append(first, 1)}, nil
}

func isExtensionName(name string) bool { return extensionName.MatchString(name) && name != "auth" }

func checkExtensions(extensions map[string]string) error {
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(extensions)) {
		if !isExtensionName(name) {
			faults = append(faults, fault.New("sasl.extensions", clip.Text(name, 64), "a name must be 1 to 64 letters, and not auth"))
		}
		if !extensionValue.MatchString(extensions[name]) {
			faults = append(faults, fault.New("sasl.extensions", fault.Phrase(clip.Text(name, 64)), "the value must be 1 to 1000 printable ASCII characters"))
		}
	}
	return errors.Join(faults...)
}

func (oauthBearer) Name() string { return oauthName }

func (o oauthBearer) Start(context.Context) (sasl.StateMachine, []byte, error) {
	return &oauthSession{}, o.first, nil
}

// oauthSession is one exchange. A broker that accepts the token sends an empty challenge. A
// broker that refuses it sends the reason, waits for \x01, and then ends the exchange with an
// error.
type oauthSession struct{ refused bool }

func (s *oauthSession) Next(_ context.Context, challenge []byte) (done bool, response []byte, err error) {
	switch {
	case s.refused:
		return false, nil, errors.New("the broker refused the token, and then continued the exchange")
	case len(challenge) > 0:
		s.refused = true
		return false, []byte{1}, nil
	}
	return true, nil, nil
}
