package api_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/awslabs/aws-lambda-go-api-proxy/core"

	"github.com/gatewright/gatewright/shared/management/api"
)

// requestFrom returns a request that the platform received from an address.
func requestFrom(t *testing.T, address string) *http.Request {
	t.Helper()
	event := events.APIGatewayProxyRequest{
		HTTPMethod: "POST", Path: "/",
		Headers: map[string]string{"X-Forwarded-For": "198.51.100.7"},
	}
	event.RequestContext.Identity.SourceIP = address
	accessor := core.RequestAccessor{}
	r, err := accessor.EventToRequestWithContext(context.Background(), event)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAddressLimitPerSecond(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 250_000_000, time.UTC)
	a := api.NewAddressLimiter(3, func() time.Time { return now })
	tests := []struct {
		name    string
		clients []string // addresses that are counted as one client
	}{
		{"an IPv4 address", []string{"192.0.2.1", "192.0.2.1", "192.0.2.1"}},
		{"the next IPv4 address", []string{"192.0.2.2", "::ffff:192.0.2.2", "192.0.2.2"}},
		{"a /64 of IPv6", []string{"2001:db8:1:2::1", "2001:db8:1:2:ffff::9", "2001:db8:1:2::3"}},
		{"the next /64 of IPv6", []string{"2001:db8:1:3::1", "2001:db8:1:3::1", "2001:db8:1:3::1"}},
		{"invalid addresses", []string{"", "nowhere", ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, client := range tt.clients {
				if wait := a.Reserve(requestFrom(t, client)); wait != 0 {
					t.Errorf("Reserve(%q) = %s, want 0s", client, wait)
				}
			}
			if wait := a.Reserve(requestFrom(t, tt.clients[1])); wait != 750*time.Millisecond {
				t.Errorf("Reserve(%q) beyond the limit = %s, want 750ms, until the next second", tt.clients[1], wait)
			}
		})
	}
	now = now.Add(750 * time.Millisecond)
	if wait := a.Reserve(requestFrom(t, "192.0.2.1")); wait != 0 {
		t.Errorf("Reserve() in the next second = %s, want 0s", wait)
	}
}

// TestAddressLimiterConcurrentUse checks that no address exceeds its limit with concurrent requests.
func TestAddressLimiterConcurrentUse(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	a := api.NewAddressLimiter(100, func() time.Time { return now })
	r := requestFrom(t, "192.0.2.1")
	var wg sync.WaitGroup
	var allowed atomic.Int64
	for range 8 {
		wg.Go(func() {
			for range 100 {
				if a.Reserve(r) == 0 {
					allowed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if n := allowed.Load(); n != 100 {
		t.Errorf("allowed requests of 800 = %d, want 100", n)
	}
}

// TestAddressesBeyondMaximumAreRefused checks that addresses
// that cannot be counted are refused: they would have no limit.
func TestAddressesBeyondMaximumAreRefused(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	a := api.NewAddressLimiter(2, func() time.Time { return now })
	for i := range 16_384 {
		if wait := a.Reserve(requestFrom(t, fmt.Sprintf("10.0.%d.%d", i/256, i%256))); wait != 0 {
			t.Fatalf("Reserve(address %d) = %s, want 0s", i, wait)
		}
	}
	if a.Reserve(requestFrom(t, "192.0.2.1")) == 0 {
		t.Error("Reserve(address beyond the maximum) = 0s, want a wait")
	}
	if wait := a.Reserve(requestFrom(t, "10.0.0.1")); wait != 0 {
		t.Errorf("second Reserve(counted address) = %s, want 0s", wait)
	}
	now = now.Add(time.Second)
	if wait := a.Reserve(requestFrom(t, "192.0.2.1")); wait != 0 {
		t.Errorf("Reserve(address beyond the maximum) in the next second = %s, want 0s", wait)
	}
}
