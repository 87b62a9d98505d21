package customdomains

import (
	"crypto/x509"
	"fmt"
	"testing"
	"time"
)

// TestRenewalsAreSpread: those issued together are not renewed together, and each with a
// third of its time left or a little more.
func TestRenewalsAreSpread(t *testing.T) {
	ends := time.Date(2026, 6, 12, 0, 0, 0, 0, time.UTC)
	c := &x509.Certificate{NotBefore: ends.Add(-90 * 24 * time.Hour), NotAfter: ends}
	days := map[int]bool{}
	for i := range 100 {
		left := ends.Sub(renewal(c, fmt.Sprint("certify-", i)))
		if left < 30*24*time.Hour || left > 33*24*time.Hour {
			t.Errorf("it is renewed %s before its end", left)
		}
		days[int(left/(24*time.Hour))] = true
	}
	if len(days) < 3 {
		t.Errorf("all are renewed on %d days", len(days))
	}
}

// TestGatewayKeepsSomeHostnames, and the one that was asked for last among them.
func TestGatewayKeepsSomeHostnames(t *testing.T) {
	d := &Directory{hosts: map[string]*entry{}}
	for i := range maxHosts + 10 {
		name := fmt.Sprint(i, ".example.com")
		d.keep(name, &entry{})
		if d.kept(name) == nil {
			t.Fatalf("%s is not kept", name)
		}
	}
	if len(d.hosts) != maxHosts {
		t.Errorf("%d are kept, want %d", len(d.hosts), maxHosts)
	}
	for name := range d.hosts {
		d.keep(name, &entry{change: "2"})
		break
	}
	if len(d.hosts) != maxHosts {
		t.Errorf("%d are kept after a change of one", len(d.hosts))
	}
}
