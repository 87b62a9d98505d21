package gateway_test

import (
	"fmt"
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
		want   string
	}{
		"AWS":      {config.Config{}, "[]"},
		"a laptop": {config.Config{DynamoDBEndpoint: "http://127.0.0.1:8000", S3Endpoint: "http://127.0.0.1:8001"}, "[127.0.0.1:8000 127.0.0.1:8001]"},
		"a name":   {config.Config{DynamoDBEndpoint: "http://dynamodb:8000"}, "[]"},
	} {
		if got := fmt.Sprint(gateway.Emulators(c.config)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
