package gateway_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/shared/core/config"
)

// TestRuntimeAPIIsRefused checks that RuntimeAPI returns the address in the variable of Lambda, and no address if the
// variable has none. newOptions makes the gateway refuse the returned address.
func TestRuntimeAPIIsRefused(t *testing.T) {
	for value, want := range map[string]string{
		"":                "[]",
		"127.0.0.1:9001":  "[127.0.0.1:9001]",
		"169.254.100.1:1": "[169.254.100.1:1]",
		"no address":      "[]",
	} {
		got := gateway.RuntimeAPI(func(name string) string {
			if name != "AWS_LAMBDA_RUNTIME_API" {
				t.Errorf("RuntimeAPI() reads the variable %s, want AWS_LAMBDA_RUNTIME_API", name)
			}
			return value
		})
		if fmt.Sprint(got) != want {
			t.Errorf("RuntimeAPI(%q) = %v, want %s", value, got, want)
		}
	}
}

// TestEmulatorsAreRefused checks that Emulators returns the addresses of all configured emulators, with their ports.
// New makes the gateway refuse the returned addresses.
func TestEmulatorsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		config config.Config
		want   []string
	}{
		"no emulator": {config.Config{}, nil},
		"DynamoDB and S3": {
			config.Config{DynamoDBEndpoint: "http://127.0.0.1:8000", S3Endpoint: "http://localhost:8001"},
			[]string{"127.0.0.1:8000", "localhost:8001"},
		},
		"no port": {
			config.Config{DynamoDBEndpoint: "http://192.0.2.7", S3Endpoint: "https://s3.test"},
			[]string{"192.0.2.7:80", "s3.test:443"},
		},
		"IPv6":    {config.Config{S3Endpoint: "http://[2001:db8::1]:8000"}, []string{"[2001:db8::1]:8000"}},
		"Bedrock": {config.Config{BedrockEndpoint: "http://bedrock:8002"}, []string{"bedrock:8002"}},
		"S3 with another endpoint for clients": {
			config.Config{S3Endpoint: "http://s3:8000", S3PublicEndpoint: "https://files.example.com"},
			[]string{"s3:8000"},
		},
	} {
		if got := gateway.Emulators(c.config); !slices.Equal(got, c.want) {
			t.Errorf("%s: Emulators() = %q, want %q", name, got, c.want)
		}
	}
}
