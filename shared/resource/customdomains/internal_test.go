package customdomains

import (
	"crypto/x509"
	"fmt"
	"testing"
	"time"
)

// TestRenewalsHaveJitter checks that certificates issued together are not renewed
// together, and that each is renewed with a third of its lifetime left, or slightly more.
func TestRenewalsHaveJitter(t *testing.T) {
	notAfter := time.Date(2026, 6, 12, 0, 0, 0, 0, time.UTC)
	c := &x509.Certificate{NotBefore: notAfter.Add(-90 * 24 * time.Hour), NotAfter: notAfter}
	days := map[int]bool{}
	for i := range 100 {
		remaining := notAfter.Sub(renewalTime(c, fmt.Sprint("certify-", i)))
		if remaining < 30*24*time.Hour || remaining > 33*24*time.Hour {
			t.Errorf("renewal is %s before the end, want 30 to 33 days", remaining)
		}
		days[int(remaining/(24*time.Hour))] = true
	}
	if len(days) < 3 {
		t.Errorf("100 renewals fall on %d days, want at least 3", len(days))
	}
}

// TestHostnameCacheIsBounded checks that at most maxHosts hostnames are cached, and that a hostname is in the cache
// right after it was added.
func TestHostnameCacheIsBounded(t *testing.T) {
	d := &Directory{hosts: map[string]*entry{}}
	for i := range maxHosts + 10 {
		name := fmt.Sprint(i, ".example.com")
		d.cacheEntry(name, &entry{})
		if d.cachedEntry(name) == nil {
			t.Fatalf("cachedEntry(%s) = nil, want the entry", name)
		}
	}
	if len(d.hosts) != maxHosts {
		t.Errorf("%d hostnames cached, want %d", len(d.hosts), maxHosts)
	}
	for name := range d.hosts {
		d.cacheEntry(name, &entry{change: "2"})
		break
	}
	if len(d.hosts) != maxHosts {
		t.Errorf("%d entries after a change of one, want %d", len(d.hosts), maxHosts)
	}
}
