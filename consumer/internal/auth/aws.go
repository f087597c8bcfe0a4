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

// msk is the mechanism AWS_MSK_IAM. What AWS's SDK finds in the environment, in
// files or at a service of the host is looked for at the first connection; from
// then on the SDK renews the credentials by itself.
type msk struct {
	region string // empty: as found

	mu    sync.Mutex // held while files are read, never while a service is asked
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

// regionOf reads the region from the name of a broker of MSK; empty: it says none.
func regionOf(broker *sasl.Metadata) string {
	if broker == nil {
		return ""
	}
	if parts := mskHost.FindStringSubmatch(broker.Host); parts != nil {
		return parts[1]
	}
	return ""
}
