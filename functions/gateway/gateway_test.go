package gateway_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/shared/config"
)

func TestRuntimeAPIIsRefused(t *testing.T) {
	for value, want := range map[string]string{
		"":                "[]",
		"127.0.0.1:9001":  "[127.0.0.1:9001]",
		"169.254.100.1:1": "[169.254.100.1:1]",
		"no address":      "[]",
	} {
		got := gateway.RuntimeAPI(func(name string) string {
			if name != "AWS_LAMBDA_RUNTIME_API" {
				t.Errorf("it asks for %s", name)
			}
			return value
		})
		if fmt.Sprint(got) != want {
			t.Errorf("%q: %v, want %s", value, got, want)
		}
	}
}

func TestEmulatorsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		config config.Config
		want   []string
	}{
		"AWS":           {config.Config{}, nil},
		"a laptop":      {config.Config{DynamoDBEndpoint: "http://127.0.0.1:8000", S3Endpoint: "http://127.0.0.1:8001"}, []string{"127.0.0.1:8000", "[::1]:8000", "127.0.0.1:8001", "[::1]:8001"}},
		"its name":      {config.Config{DynamoDBEndpoint: "http://localhost:8000"}, []string{"127.0.0.1:8000", "[::1]:8000"}},
		"all addresses": {config.Config{S3Endpoint: "http://0.0.0.0:8000"}, []string{"127.0.0.1:8000", "[::1]:8000"}},
		"no port":       {config.Config{DynamoDBEndpoint: "http://192.0.2.7", S3Endpoint: "https://192.0.2.8"}, []string{"192.0.2.7:80", "192.0.2.8:443"}},
		"IPv6":          {config.Config{S3Endpoint: "http://[2001:db8::1]:8000"}, []string{"[2001:db8::1]:8000"}},
		"a name":        {config.Config{DynamoDBEndpoint: "http://dynamodb:8000"}, nil},
	} {
		got := gateway.Emulators(c.config)
		for _, want := range c.want {
			if !slices.Contains(got, netip.MustParseAddrPort(want)) {
				t.Errorf("%s: %v, want %s too", name, got, want)
			}
		}
		if len(c.want) == 0 && len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}
