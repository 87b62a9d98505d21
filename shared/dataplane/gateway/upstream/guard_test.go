package upstream

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
)

func TestOnlyPublicAddressesAreDialedUnlessAllowed(t *testing.T) {
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
		"[fd00::1%eth0]:80":           {false, true, false},
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
		got := verdict{
			public.Check(t.Context(), to) == nil, private.Check(t.Context(), to) == nil,
			listed.Check(t.Context(), to) == nil,
		}
		if got != want {
			t.Errorf("Check(%s) allows the address = %+v, want %+v", address, got, want)
		}
	}
	if err := public.Check(t.Context(), netip.AddrPort{}); !errors.Is(err, errAddressRefused) {
		t.Errorf("Check(no address) = %v, want %v", err, errAddressRefused)
	}
}

func TestRefusedEndpointsTakePrecedence(t *testing.T) {
	g := Guard{
		AllowPrivate: true,
		Allow:        []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")},
		Refuse: []netip.AddrPort{
			netip.MustParseAddrPort("127.0.0.1:9001"), netip.MustParseAddrPort("169.254.100.1:0"),
			netip.MustParseAddrPort("[::ffff:10.0.0.9]:9001"),
		},
	}
	for address, want := range map[string]bool{
		"127.0.0.1:9001":          false,
		"[::ffff:127.0.0.1]:9001": false,
		"[64:ff9b::7f00:1]:9001":  false,
		"127.0.0.2:9001":          false,
		"127.255.255.254:9001":    false,
		"[::1]:9001":              false,
		"[64:ff9b::7f00:2]:9001":  false,
		"127.0.0.1:9002":          true,
		"[::1]:9002":              true,
		"10.0.0.9:9001":           false,
		"[::ffff:10.0.0.9]:9001":  false,
		"10.0.0.9:9002":           true,
		"169.254.100.1:80":        false,
		"169.254.100.2:80":        true,
	} {
		if got := g.Check(t.Context(), netip.MustParseAddrPort(address)) == nil; got != want {
			t.Errorf("Check(%s) allows the address: %t, want %t", address, got, want)
		}
	}
}

// allowAllGuard allows every address that a guard can allow.
var allowAllGuard = Guard{AllowPrivate: true, Allow: []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/0"),
	netip.MustParsePrefix("::/0"),
}}

// ipv6Forms returns an IPv4 address, and IPv6 addresses that lead to it, or can lead to it.
func ipv6Forms(v4 netip.Addr, random *rand.Rand) []netip.Addr {
	b := v4.As4()
	noise := func() byte { return byte(random.Uint32()) }
	return []netip.Addr{
		v4,
		netip.AddrFrom16(v4.As16()), // IPv4-mapped
		netip.AddrFrom16([16]byte{12: b[0], b[1], b[2], b[3]}), // IPv4-compatible
		netip.AddrFrom16([16]byte{0x00, 0x64, 0xff, 0x9b, 12: b[0], b[1], b[2], b[3]}),
		netip.AddrFrom16([16]byte{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01, 12: b[0], b[1], b[2], b[3]}),
		netip.AddrFrom16([16]byte{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01, b[0], b[1], 0x00, b[2], b[3]}),
		netip.AddrFrom16([16]byte{0x20, 0x02, b[0], b[1], b[2], b[3], noise(), noise(), 15: noise()}), // 6to4
		netip.AddrFrom16([16]byte{0x20, 0x01, 0, 0, b[0], b[1], b[2], b[3], noise(), 15: noise()}),    // Teredo's server
		// Teredo's client
		netip.AddrFrom16([16]byte{
			0x20, 0x01, 0, 0, 0x5d, 0xb8, 0xd8, 0x22, noise(), noise(), noise(), noise(), ^b[0], ^b[1],
			^b[2], ^b[3],
		}),
		// ISATAP
		netip.AddrFrom16([16]byte{0x26, 0x06, 0x47, noise(), noise(), 8: 0x00, 0x00, 0x5e, 0xfe, b[0], b[1], b[2], b[3]}),
		netip.AddrFrom16([16]byte{0x2a, 0x06, 0x47, noise(), noise(), 8: 0x02, 0x00, 0x5e, 0xfe, b[0], b[1], b[2], b[3]}),
	}
}

// TestPlatformAddressesAreNeverDialed checks that the addresses where platforms
// serve credentials are refused in every form, even by the least restrictive guard.
func TestPlatformAddressesAreNeverDialed(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, text := range []string{
		"169.254.169.254", "169.254.170.2", "169.254.170.23", "169.254.169.253", "169.254.42.42", "169.254.0.23",
		"100.100.100.200", "168.63.129.16", "192.0.0.192",
		"fd00:ec2::254", "fd00:ec2::23", "fd00:ec2::253", "fd00:ec2:0:1::254", "fd00:100::100:200", "fd20:ce::254",
		"fd00:c1::a9fe:a9fe", "fd00:42::42", "fd00:a9fe:a9fe::1", "fe80::a9fe:a9fe",
	} {
		addr := netip.MustParseAddr(text)
		forms := []netip.Addr{addr, addr.WithZone("eth0")}
		if addr.Is4() {
			forms = ipv6Forms(addr, random)
			forms = append(forms, forms[1].WithZone("eth0"))
		}
		for _, form := range forms {
			for name, g := range map[string]Guard{"public": {}, "private": {AllowPrivate: true}, "everything": allowAllGuard} {
				for _, port := range []uint16{80, 443, 1338, 32526} {
					if err := g.Check(t.Context(), netip.AddrPortFrom(form, port)); !errors.Is(err, errAddressRefused) {
						t.Errorf("Check(%s, written %s, port %d) with %s allowed = %v, want %v",
							text, form, port, name, err, errAddressRefused)
					}
				}
			}
		}
	}
	for _, text := range []string{"100.100.100.201", "168.63.129.17", "fd00:ec1::254", "fd20:ce::253", "169.254.169.1"} {
		if err := allowAllGuard.Check(t.Context(), netip.AddrPortFrom(netip.MustParseAddr(text), 80)); err != nil {
			t.Errorf("Check(%s, next to a refused address) = %v, want nil", text, err)
		}
	}
}

// TestIPv6FormIsAllowedOnlyIfItsIPv4AddressIs checks, for generated IPv4 addresses and several guards, that an IPv6
// address that can lead to a refused IPv4 address is refused, too.
func TestIPv6FormIsAllowedOnlyIfItsIPv4AddressIs(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	ipv4Prefixes := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
	ipv4Prefixes = append(ipv4Prefixes,
		slices.DeleteFunc(slices.Concat(platformPrefixes, privatePrefixes, specialPrefixes), func(p netip.Prefix) bool {
			return p.Addr().Is6()
		})...)
	guards := []Guard{
		{},
		{AllowPrivate: true},
		{Allow: []netip.Prefix{netip.MustParsePrefix("::/0")}},
		{AllowPrivate: true, Allow: []netip.Prefix{netip.MustParsePrefix("2000::/3")}},
	}
	refused := 0
	for range 20_000 {
		p := ipv4Prefixes[random.IntN(len(ipv4Prefixes))]
		b := p.Addr().As4()
		for i, r := range binary.BigEndian.AppendUint32(nil, uint32(uint64(random.Uint32())>>p.Bits())) {
			b[i] |= r
		}
		v4 := netip.AddrFrom4(b)
		g := guards[random.IntN(len(guards))]
		g.Refuse = []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom4([4]byte{8, 8, 8, 8}), 0)}
		allowed := g.Check(t.Context(), netip.AddrPortFrom(v4, 80)) == nil
		for _, form := range ipv6Forms(v4, random) {
			if got := g.Check(t.Context(), netip.AddrPortFrom(form, 80)) == nil; got && !allowed {
				t.Fatalf("Check(%s) = nil with %+v, want an error as for %s", form, g, v4)
			} else if !got {
				refused++
			}
		}
	}
	if refused < 50_000 {
		t.Errorf("refused addresses = %d, want at least 50,000", refused)
	}
}
