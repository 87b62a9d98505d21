package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"

	"github.com/gatewright/gatewright/shared/runtime/service"
)

// The variables that ECS sets.
const (
	varCredentials = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI" //nolint:gosec // G101: the variable's name
	varMetadata    = "ECS_CONTAINER_METADATA_URI_V4"
)

// agentOrigin is the address of the ECS agent, a link-local address of the machine.
const agentOrigin = "http://169.254.170.2"

// credentials returns the provider of the task role's credentials, which the ECS agent issues for some hours. agent is
// the agent's origin, such as agentOrigin. credentials returns nil outside of ECS, where the credentials are in the
// environment.
func credentials(agent string, getenv func(string) string) aws.CredentialsProvider {
	path := getenv(varCredentials)
	if path == "" {
		return nil
	}
	return aws.NewCredentialsCache(endpointcreds.New(agent+path), func(o *aws.CredentialsCacheOptions) {
		// A refresh is due 2.5 to 5 minutes before the expiry, at random, so that copies refresh at different times.
		o.ExpiryWindow = 5 * time.Minute
		o.ExpiryWindowJitterFrac = 0.5
	})
}

const (
	metadataTimeout = 10 * time.Second
	maxMetadata     = 64 << 10
)

// peerAddress returns the address at which other copies of the service reach this one. It returns "" outside of ECS,
// where there are no copies.
func peerAddress(ctx context.Context, s service.Service, getenv func(string) string) (string, error) {
	metadataURI := getenv(varMetadata)
	if metadataURI == "" {
		return "", nil
	}
	ip, err := taskIP(ctx, metadataURI)
	if err != nil {
		return "", fmt.Errorf("ask ECS for this task's address: %w", err)
	}
	u := url.URL{Scheme: "http", Host: net.JoinHostPort(ip, strconv.Itoa(s.Port.Listen))}
	if s.Port.Protocol == service.TLS {
		u.Scheme = "https"
	}
	return u.String(), nil
}

func taskIP(ctx context.Context, metadataURI string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, metadataURI, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("it answers %s", resp.Status)
	}
	var metadata struct {
		Networks []struct{ IPv4Addresses []string }
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxMetadata)).Decode(&metadata); err != nil {
		return "", fmt.Errorf("decode its answer: %w", err)
	}
	for _, n := range metadata.Networks {
		for _, ip := range n.IPv4Addresses {
			if net.ParseIP(ip) != nil {
				return ip, nil
			}
		}
	}
	return "", errors.New("it names none")
}
