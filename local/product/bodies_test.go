package product

import (
	"testing"

	"github.com/gatewright/gatewright/local/apigateway"
	"github.com/gatewright/gatewright/shared/core/config"
)

// TestBodyBudget checks that the memory for bodies is sufficient for the largest body that
// API Gateway accepts if functions are processes, unless the operator has set another value.
func TestBodyBudget(t *testing.T) {
	defaults := config.DefaultListener()
	custom := defaults
	custom.BufferedBodyBytes = 16 << 20
	for name, tt := range map[string]struct {
		s    settings
		want int64
	}{
		"one process":            {settings{listener: defaults}, int64(defaults.BufferedBodyBytes)},
		"functions as processes": {settings{listener: defaults, functions: "dist"}, processBodyBytes},
		"functions as processes, with a value of the operator": {
			settings{listener: custom, functions: "dist"}, int64(custom.BufferedBodyBytes),
		},
	} {
		if got := tt.s.bodyBytes(); got != tt.want {
			t.Errorf("%s: bodyBytes() = %d, want %d", name, got, tt.want)
		}
	}
	// A client may use a quarter of the memory, and a request to a gateway route three quarters of that.
	if capacity, required := int64(processBodyBytes)/4*3/4, int64(3*apigateway.MaxBodyBytes); capacity < required {
		t.Errorf("processBodyBytes has space for %d bytes of a request, want %d", capacity, required)
	}
}
