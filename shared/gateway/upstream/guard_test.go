package upstream

import (
	"errors"
	"net/netip"
	"testing"
)

func TestOnlyPublicAddressesAreDialledUnlessAllowed(t *testing.T) {
	public := Guard{}
	private := Guard{AllowPrivate: true}
	listed := Guard{Allow: []netip.Prefix{netip.MustParsePrefix("169.254.7.0/24"), netip.MustParsePrefix("10.1.0.0/16")}}
	type verdict struct{ public, private, listed bool }
	for address, want := range map[string]verdict{
		"93.184.216.34:443":           {true, true, true},
		"[2606:4700::1111]:443":       {true, true, true},
		"127.0.0.1:80":                {false, true, false},
		"127.255.255.254:80":          {false, true, false},
		"[::1]:80":                    {false, true, false},
		"10.0.0.1:80":                 {false, true, false},
		"10.1.0.1:80":                 {false, true, true},
		"172.16.0.1:80":               {false, true, false},
		"172.32.0.1:80":               {true, true, true},
		"192.168.1.1:80":              {false, true, false},
		"100.64.0.1:80":               {false, true, false},
		"[fd00::1]:80":                {false, true, false},
		"169.254.169.254:80":          {false, false, false},
		"169.254.7.1:80":              {false, false, true},
		"[fe80::1]:80":                {false, false, false},
		"[fe80::1%eth0]:80":           {false, false, false},
		"0.0.0.0:80":                  {false, false, false},
		"0.1.2.3:80":                  {false, false, false},
		"[::]:80":                     {false, false, false},
		"224.0.0.1:80":                {false, false, false},
		"[ff02::1]:80":                {false, false, false},
		"255.255.255.255:80":          {false, false, false},
		"240.0.0.1:80":                {false, false, false},
		"192.0.2.1:80":                {false, false, false},
		"198.18.0.1:80":               {false, false, false},
		"[::ffff:169.254.169.254]:80": {false, false, false},
		"[::ffff:10.0.0.1]:80":        {false, true, false},
		"[::ffff:93.184.216.34]:80":   {true, true, true},
		"[::169.254.169.254]:80":      {false, false, false},
		"[64:ff9b::a9fe:a9fe]:80":     {false, false, false},
		"[64:ff9b::a00:1]:80":         {false, true, false},
		"[64:ff9b::5db8:d822]:80":     {true, true, true},
		"[64:ff9b:1::a9fe:a9fe]:80":   {false, false, false},
		"[2002:a9fe:a9fe::1]:80":      {false, false, false},
		"[2001:0:a9fe:a9fe::1]:80":    {false, false, false},
		"[2001:db8::1]:80":            {false, false, false},
		"[fec0::1]:80":                {false, false, false},
		"[100::1]:80":                 {false, false, false},
		"[4000::1]:80":                {false, false, false},
	} {
		to := netip.MustParseAddrPort(address)
		got := verdict{public.Check(to) == nil, private.Check(to) == nil, listed.Check(to) == nil}
		if got != want {
			t.Errorf("%s: got %+v, want %+v", address, got, want)
		}
	}
	if err := public.Check(netip.AddrPort{}); !errors.Is(err, errAddressRefused) {
		t.Errorf("no address: %v", err)
	}
}

func TestRefusedEndpointsStayRefused(t *testing.T) {
	g := Guard{
		AllowPrivate: true,
		Allow:        []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")},
		Refuse:       []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:9001"), netip.MustParseAddrPort("169.254.100.1:0")},
	}
	for address, want := range map[string]bool{
		"127.0.0.1:9001":          false,
		"[::ffff:127.0.0.1]:9001": false,
		"[64:ff9b::7f00:1]:9001":  false,
		"127.0.0.1:9002":          true,
		"169.254.100.1:80":        false,
		"169.254.100.2:80":        true,
	} {
		if got := g.Check(netip.MustParseAddrPort(address)) == nil; got != want {
			t.Errorf("%s: let through %v, want %v", address, got, want)
		}
	}
}
