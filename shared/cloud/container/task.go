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

	"github.com/gatewright/gatewright/shared/service"
)

// The variables that ECS sets.
const (
	varCredentials = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI" //nolint:gosec // G101: the variable's name
	varMetadata    = "ECS_CONTAINER_METADATA_URI_V4"
)

// agentOrigin is where ECS answers a task: an address of the machine's own.
const agentOrigin = "http://169.254.170.2"

// credentials gives those of a task's role, which last for some hours, by the agent of ECS;
// nil where the environment has others.
func credentials(agent string, getenv func(string) string) aws.CredentialsProvider {
	at := getenv(varCredentials)
	if at == "" {
		return nil
	}
	return aws.NewCredentialsCache(endpointcreds.New(agent+at), func(o *aws.CredentialsCacheOptions) {
		o.ExpiryWindow = 5 * time.Minute // or down to the half of it, at random: copies don't all ask at once
		o.ExpiryWindowJitterFrac = 0.5
	})
}

const (
	metadataTimeout = 10 * time.Second
	maxMetadata     = 64 << 10
)

// addressOf is where other copies of a service reach this one, "" outside ECS, where there
// are none.
func addressOf(ctx context.Context, s service.Service, getenv func(string) string) (string, error) {
	at := getenv(varMetadata)
	if at == "" {
		return "", nil
	}
	ip, err := ownIP(ctx, at)
	if err != nil {
		return "", fmt.Errorf("ask ECS for this task's address: %w", err)
	}
	u := url.URL{Scheme: "http", Host: net.JoinHostPort(ip, strconv.Itoa(s.Port.Listens))}
	if s.Port.Protocol == service.TLS {
		u.Scheme = "https"
	}
	return u.String(), nil
}

func ownIP(ctx context.Context, at string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return "", err
	}
	out, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = out.Body.Close() }()
	if out.StatusCode != http.StatusOK {
		return "", fmt.Errorf("it answers %s", out.Status)
	}
	var metadata struct {
		Networks []struct{ IPv4Addresses []string }
	}
	if err := json.NewDecoder(io.LimitReader(out.Body, maxMetadata)).Decode(&metadata); err != nil {
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
