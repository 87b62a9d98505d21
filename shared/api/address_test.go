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

	"github.com/gatewright/gatewright/shared/api"
)

// from is a request that the platform saw come from an address.
func from(t *testing.T, address string) *http.Request {
	t.Helper()
	event := events.APIGatewayProxyRequest{HTTPMethod: "POST", Path: "/", Headers: map[string]string{"X-Forwarded-For": "198.51.100.7"}}
	event.RequestContext.Identity.SourceIP = address
	accessor := core.RequestAccessor{}
	r, err := accessor.EventToRequestWithContext(context.Background(), event)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEachAddressMayAskSoOftenInASecond(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 250_000_000, time.UTC)
	a := api.NewAddresses(3, func() time.Time { return now })
	tests := []struct {
		name    string
		clients []string // which count as one
	}{
		{"one of IPv4", []string{"192.0.2.1", "192.0.2.1", "192.0.2.1"}},
		{"its neighbour", []string{"192.0.2.2", "::ffff:192.0.2.2", "192.0.2.2"}},
		{"a /64 of IPv6", []string{"2001:db8:1:2::1", "2001:db8:1:2:ffff::9", "2001:db8:1:2::3"}},
		{"the /64 beside it", []string{"2001:db8:1:3::1", "2001:db8:1:3::1", "2001:db8:1:3::1"}},
		{"no address", []string{"", "nowhere", ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, client := range tt.clients {
				if wait := a.Take(from(t, client)); wait != 0 {
					t.Errorf("%q has to wait for %s", client, wait)
				}
			}
			if wait := a.Take(from(t, tt.clients[1])); wait != 750*time.Millisecond {
				t.Errorf("one more has to wait for %s, want until the next second", wait)
			}
		})
	}
	now = now.Add(750 * time.Millisecond)
	if wait := a.Take(from(t, "192.0.2.1")); wait != 0 {
		t.Errorf("in the next second it has to wait for %s", wait)
	}
}

// TestAddressesAreCountedByManyAtOnce: none of them gets more than its number.
func TestAddressesAreCountedByManyAtOnce(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	a := api.NewAddresses(100, func() time.Time { return now })
	r := from(t, "192.0.2.1")
	var all sync.WaitGroup
	var let atomic.Int64
	for range 8 {
		all.Go(func() {
			for range 100 {
				if a.Take(r) == 0 {
					let.Add(1)
				}
			}
		})
	}
	all.Wait()
	if n := let.Load(); n != 100 {
		t.Errorf("%d of 800 are let in, want 100", n)
	}
}

// TestMoreAddressesThanAreCountedAreRefused: what is not counted would have no limit.
func TestMoreAddressesThanAreCountedAreRefused(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	a := api.NewAddresses(2, func() time.Time { return now })
	for i := range 16_384 {
		if a.Take(from(t, fmt.Sprintf("10.0.%d.%d", i/256, i%256))) != 0 {
			t.Fatalf("the address %d is refused", i)
		}
	}
	if a.Take(from(t, "192.0.2.1")) == 0 {
		t.Error("an address that has no room is let in")
	}
	if a.Take(from(t, "10.0.0.1")) != 0 {
		t.Error("an address that is counted is refused its second request")
	}
	now = now.Add(time.Second)
	if a.Take(from(t, "192.0.2.1")) != 0 {
		t.Error("it is refused in the next second too")
	}
}
