package auth

import (
	"context"
	"fmt"
	"regexp"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	signer "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/aws_msk_iam_v2"
)

// msk is the mechanism AWS_MSK_IAM. At the first connection, AWS's SDK looks for credentials
// in the environment, in files and at services of the host. From then on, the SDK renews them.
type msk struct {
	region string // empty: the one that the SDK finds

	mu    sync.Mutex // held while files are read, but not while a service is called
	found *aws.Config
}

func newMSK(region string) sasl.Mechanism {
	m := &msk{region: region}
	return perConnection{"AWS_MSK_IAM", m.start}
}

func (m *msk) start(ctx context.Context) (sasl.Mechanism, error) {
	found, err := m.find(ctx)
	if err != nil {
		return nil, fmt.Errorf("sasl: aws: %w", err)
	}
	region := found.Region
	if region == "" {
		region = regionOf(sasl.MetadataFromContext(ctx))
	}
	if region == "" {
		return nil, fmt.Errorf("%w: aws: the region is not known: set it, or AWS_REGION", ErrUnsuitable)
	}
	return &aws_msk_iam_v2.Mechanism{Signer: signer.NewSigner(), Credentials: found.Credentials, Region: region}, nil
}

func (m *msk) find(ctx context.Context) (aws.Config, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.found != nil {
		return *m.found, nil
	}
	found, err := awsconfig.LoadDefaultConfig(ctx)
	if err != nil {
		return aws.Config{}, err
	}
	if m.region != "" {
		found.Region = m.region
	}
	m.found = &found
	return found, nil
}

var mskHost = regexp.MustCompile(`\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$`)

// regionOf reads the region from the host name of an MSK broker; empty: it holds none.
func regionOf(broker *sasl.Metadata) string {
	if broker == nil {
		return ""
	}
	if parts := mskHost.FindStringSubmatch(broker.Host); parts != nil {
		return parts[1]
	}
	return ""
}
