package upstream

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
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
		got := verdict{public.Check(t.Context(), to) == nil, private.Check(t.Context(), to) == nil, listed.Check(t.Context(), to) == nil}
		if got != want {
			t.Errorf("%s: got %+v, want %+v", address, got, want)
		}
	}
	if err := public.Check(t.Context(), netip.AddrPort{}); !errors.Is(err, errAddressRefused) {
		t.Errorf("no address: %v", err)
	}
}

func TestRefusedEndpointsStayRefused(t *testing.T) {
	g := Guard{
		AllowPrivate: true,
		Allow:        []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")},
		Refuse:       []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:9001"), netip.MustParseAddrPort("169.254.100.1:0"), netip.MustParseAddrPort("[::ffff:10.0.0.9]:9001")},
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
			t.Errorf("%s: let through %v, want %v", address, got, want)
		}
	}
}

// everything is the widest guard that can be written.
var everything = Guard{AllowPrivate: true, Allow: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}}

// writings are the ways to write an IPv4 address that lead to it, or may.
func writings(v4 netip.Addr, random *rand.Rand) []netip.Addr {
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
		netip.AddrFrom16([16]byte{0x20, 0x01, 0, 0, 0x5d, 0xb8, 0xd8, 0x22, noise(), noise(), noise(), noise(), ^b[0], ^b[1], ^b[2], ^b[3]}),
		netip.AddrFrom16([16]byte{0x26, 0x06, 0x47, noise(), noise(), 8: 0x00, 0x00, 0x5e, 0xfe, b[0], b[1], b[2], b[3]}), // ISATAP
		netip.AddrFrom16([16]byte{0x2a, 0x06, 0x47, noise(), noise(), 8: 0x02, 0x00, 0x5e, 0xfe, b[0], b[1], b[2], b[3]}),
	}
}

// TestPlatformAddressesAreNeverDialled: where a machine asks its platform for
// credentials is refused whatever an installation allows, and in every writing.
func TestPlatformAddressesAreNeverDialled(t *testing.T) {
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
			forms = writings(addr, random)
			forms = append(forms, forms[1].WithZone("eth0"))
		}
		for _, form := range forms {
			for name, g := range map[string]Guard{"public": {}, "private": {AllowPrivate: true}, "everything": everything} {
				for _, port := range []uint16{80, 443, 1338, 32526} {
					if err := g.Check(t.Context(), netip.AddrPortFrom(form, port)); !errors.Is(err, errAddressRefused) {
						t.Errorf("%s, written %s, port %d, with %s allowed: %v", text, form, port, name, err)
					}
				}
			}
		}
	}
	for _, text := range []string{"100.100.100.201", "168.63.129.17", "fd00:ec1::254", "fd20:ce::253", "169.254.169.1"} {
		if err := everything.Check(t.Context(), netip.AddrPortFrom(netip.MustParseAddr(text), 80)); err != nil {
			t.Errorf("%s is a neighbour, and refused: %v", text, err)
		}
	}
}

// TestAWritingIsAllowedOnlyWithWhatItStandsFor: for generated IPv4 addresses and
// guards, no IPv6 address that may lead to one is let through where it is not.
func TestAWritingIsAllowedOnlyWithWhatItStandsFor(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	near := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
	near = append(near, slices.DeleteFunc(slices.Concat(platformPrefixes, privatePrefixes, specialPrefixes), func(p netip.Prefix) bool { return p.Addr().Is6() })...)
	guards := []Guard{{}, {AllowPrivate: true}, {Allow: []netip.Prefix{netip.MustParsePrefix("::/0")}}, {AllowPrivate: true, Allow: []netip.Prefix{netip.MustParsePrefix("2000::/3")}}}
	refused := 0
	for range 20_000 {
		p := near[random.IntN(len(near))]
		b := p.Addr().As4()
		for i, r := range binary.BigEndian.AppendUint32(nil, uint32(uint64(random.Uint32())>>p.Bits())) {
			b[i] |= r
		}
		v4 := netip.AddrFrom4(b)
		g := guards[random.IntN(len(guards))]
		g.Refuse = []netip.AddrPort{netip.AddrPortFrom(netip.AddrFrom4([4]byte{8, 8, 8, 8}), 0)}
		allowed := g.Check(t.Context(), netip.AddrPortFrom(v4, 80)) == nil
		for _, form := range writings(v4, random) {
			if got := g.Check(t.Context(), netip.AddrPortFrom(form, 80)) == nil; got && !allowed {
				t.Fatalf("%s is refused, %s is let through by %+v", v4, form, g)
			} else if !got {
				refused++
			}
		}
	}
	if refused < 50_000 {
		t.Errorf("only %d were refused: the test has become one-sided", refused)
	}
}
