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

// records is a resolver with the addresses of names.
type records map[string][]string

// unresponsive is the value of a name for which the DNS does not respond.
var unresponsive = []string{"silence"}

// LookupHost implements resolver.
func (r records) LookupHost(_ context.Context, host string) ([]string, error) {
	switch addrs := r[host]; {
	case slices.Equal(addrs, unresponsive):
		return nil, &net.DNSError{Err: "i/o timeout", IsTimeout: true}
	case addrs != nil:
		return addrs, nil
	}
	return nil, &net.DNSError{Err: "no such host", IsNotFound: true}
}

// TestUnresolvedDomainIsLogged checks that a missing or wrong record causes one warning about this record, and that
// correct records cause none.
func TestUnresolvedDomainIsLogged(t *testing.T) {
	t.Parallel()
	localAddrs := []net.Addr{
		&net.IPNet{IP: net.IPv4(192, 0, 2, 1), Mask: net.CIDRMask(24, 32)},
		&net.IPNet{IP: net.ParseIP("2001:db8::1"), Mask: net.CIDRMask(64, 128)},
	}
	api, wildcard := "api.example.com", anyDeployment+".example.com"
	for name, tt := range map[string]struct {
		dns  records
		want string
	}{
		"both names, by IPv4 and IPv6": {records{api: {"198.51.100.1", "192.0.2.1"}, wildcard: {"2001:db8::1"}}, ""},
		"loopback addresses":           {records{api: {"127.0.0.1"}, wildcard: {"::1"}}, ""},
		"no records":                   {records{}, "give the name an address record"},
		"no wildcard":                  {records{api: {"192.0.2.1"}}, "name=" + wildcard},
		"DNS that does not respond":    {records{api: unresponsive}, "has not answered"},
		"wildcard at another machine": {
			records{api: {"192.0.2.1"}, wildcard: {"192.0.2.2"}},
			"leads to no address of this machine",
		},
	} {
		var out bytes.Buffer
		checkResolution(t.Context(), "example.com", tt.dns, localAddrs, slog.New(slog.NewTextHandler(&out, nil)))
		if lines := strings.Count(out.String(), "\n"); !strings.Contains(out.String(), tt.want) || lines > 1 ||
			(tt.want == "") != (lines == 0) {
			t.Errorf("%s: checkResolution() logs %q, want one line with %q, or none if it is empty", name, out.String(),
				tt.want)
		}
	}
}
