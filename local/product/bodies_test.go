package product

import (
	"testing"

	"github.com/gatewright/gatewright/local/apigateway"
	"github.com/gatewright/gatewright/shared/config"
)

// TestBodyBudget: functions as processes get bodies as large as API Gateway takes, unless the operator has chosen another budget.
func TestBodyBudget(t *testing.T) {
	usual := config.DefaultListener()
	chosen := usual
	chosen.BufferedBodyBytes = 16 << 20
	for name, tt := range map[string]struct {
		s    settings
		want int64
	}{
		"one process":                       {settings{listener: usual}, int64(usual.BufferedBodyBytes)},
		"functions as processes":            {settings{listener: usual, functions: "dist"}, processBodyBytes},
		"functions with a budget of theirs": {settings{listener: chosen, functions: "dist"}, int64(chosen.BufferedBodyBytes)},
	} {
		if got := tt.s.bodyBytes(); got != tt.want {
			t.Errorf("%s: bodyBytes() = %d, want %d", name, got, tt.want)
		}
	}
	// A gateway route may hold three quarters of a client's quarter.
	if room, need := int64(processBodyBytes)/4*3/4, int64(3*apigateway.MaxBodyBytes); room < need {
		t.Errorf("processBodyBytes has room for %d bytes of a request, want %d", room, need)
	}
}
