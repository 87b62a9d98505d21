package product

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
)

// records are a DNS.
type records map[string][]string

// silent is what a DNS has that does not answer.
var silent = []string{"silence"}

// LookupHost implements resolver.
func (r records) LookupHost(_ context.Context, host string) ([]string, error) {
	switch found := r[host]; {
	case slices.Equal(found, silent):
		return nil, &net.DNSError{Err: "i/o timeout", IsTimeout: true}
	case found != nil:
		return found, nil
	}
	return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
}

// TestDomainThatDoesNotLeadHereIsTold once, by the record that is wrong.
func TestDomainThatDoesNotLeadHereIsTold(t *testing.T) {
	t.Parallel()
	own := []net.Addr{&net.IPNet{IP: net.IPv4(192, 0, 2, 1), Mask: net.CIDRMask(24, 32)}, &net.IPNet{IP: net.ParseIP("2001:db8::1"), Mask: net.CIDRMask(64, 128)}}
	api, wildcard := "api.example.com", anyDeployment+".example.com"
	for name, tt := range map[string]struct {
		dns  records
		want string
	}{
		"both, by IPv4 and IPv6": {records{api: {"198.51.100.1", "192.0.2.1"}, wildcard: {"2001:db8::1"}}, ""},
		"this machine alone":     {records{api: {"127.0.0.1"}, wildcard: {"::1"}}, ""},
		"nothing":                {records{}, "give the name an address record"},
		"no wildcard":            {records{api: {"192.0.2.1"}}, "name=" + wildcard},
		"no answer":              {records{api: silent}, "has not answered"},
		"elsewhere":              {records{api: {"192.0.2.1"}, wildcard: {"192.0.2.2"}}, "leads to no address of this machine"},
	} {
		var out bytes.Buffer
		tellResolution(t.Context(), "example.com", tt.dns, own, slog.New(slog.NewTextHandler(&out, nil)))
		if lines := strings.Count(out.String(), "\n"); !strings.Contains(out.String(), tt.want) || lines > 1 || (tt.want == "") != (lines == 0) {
			t.Errorf("%s: %q", name, out.String())
		}
	}
}
