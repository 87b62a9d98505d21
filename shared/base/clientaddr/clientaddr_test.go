package clientaddr_test

import (
	"net/netip"
	"testing"

	"github.com/gatewright/gatewright/shared/base/clientaddr"
)

func TestAddressesOfOneClientAreEqual(t *testing.T) {
	for address, want := range map[string]string{
		"198.51.100.7":                 "198.51.100.7",
		"::ffff:198.51.100.7":          "198.51.100.7",
		"2001:db8:1:2::1":              "2001:db8:1:2::",
		"2001:db8:1:2:ffff:ffff:ff:ff": "2001:db8:1:2::",
		"2001:db8:1:3::1":              "2001:db8:1:3::",
		"fe80::1%eth0":                 "fe80::",
	} {
		if got := clientaddr.Canonical(netip.MustParseAddr(address)); got != netip.MustParseAddr(want) {
			t.Errorf("Canonical(%s) = %s, want %s", address, got, want)
		}
	}
	if got := clientaddr.Canonical(netip.Addr{}); got.IsValid() {
		t.Errorf("Canonical(no address) = %s, want no address", got)
	}
}
