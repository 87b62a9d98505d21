package gateway_test

import (
	"fmt"
	"testing"

	"github.com/gatewright/gatewright/functions/gateway"
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
