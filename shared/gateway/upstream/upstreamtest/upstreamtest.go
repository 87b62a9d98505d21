// Package upstreamtest is what tests of the gateway put in the place of the world
// outside: a name server whose answers change as a test wants.
//
// It is not a server of upstreams: httptest has those. There is only this file.
package upstreamtest

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// Records are what a name server of a test knows, by name with its last dot: an
// address, or the name that it is an alias of. The zero value knows none.
type Records struct {
	mu sync.Mutex
	of map[string][]string
}

// Set says what a name stands for, from now on; nothing is a name without an address.
func (r *Records) Set(name string, values ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = map[string][]string{}
	}
	r.of[name] = values
}

// Resolver asks the records, as a name server would: with the whole chain of
// aliases in an answer.
func (r *Records) Resolver(t testing.TB) *net.Resolver {
	t.Helper()
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			if answer := r.answer(buffer[:n]); answer != nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func (r *Records) answer(query []byte) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) == 0 {
		return nil
	}
	m.Response, m.Additionals = true, nil
	asked := m.Questions[0]
	name := asked.Name
	for range 4 {
		alias := ""
		for _, value := range r.of[name.String()] {
			header := dnsmessage.ResourceHeader{Name: name, Class: asked.Class}
			addr, err := netip.ParseAddr(value)
			switch {
			case err != nil:
				alias = value
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName(value)}})
			case addr.Is4() && asked.Type == dnsmessage.TypeA:
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: addr.As4()}})
			case addr.Is6() && asked.Type == dnsmessage.TypeAAAA:
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
			}
		}
		if alias == "" {
			break
		}
		name = dnsmessage.MustNewName(alias)
	}
	packed, err := m.Pack()
	if err != nil {
		return nil
	}
	return packed
}
