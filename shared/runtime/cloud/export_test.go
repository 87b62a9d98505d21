package cloud

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

// SDKConfig returns the SDK's configuration for services at endpoint.
func SDKConfig(t *testing.T, endpoint string) aws.Config {
	t.Helper()
	c, err := sdkConfig(credentials.NewStaticCredentialsProvider("id", "secret", ""),
		func(name string) string {
			return map[string]string{varRegion: "eu-central-1", varEndpoint: endpoint}[name]
		})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
