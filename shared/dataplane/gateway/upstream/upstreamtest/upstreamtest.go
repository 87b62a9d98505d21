// Package upstreamtest has a name server for tests of the gateway. A test can change its records.
//
// For upstream servers, use httptest. There is only this file.
package upstreamtest

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// Records has the records of a name server for tests. A record belongs to a name, such as "a.test.", and is an address,
// or another name if this name is an alias. The zero value has no records.
type Records struct {
	mu     sync.Mutex
	byName map[string][]string
}

// Set replaces the records of a name. Without values, the name has no address.
func (r *Records) Set(name string, values ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byName == nil {
		r.byName = map[string][]string{}
	}
	r.byName[name] = values
}

// Resolver returns a resolver that serves the records like a name server: a response has
// the whole chain of aliases, up to four names.
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
			if response := r.respond(buffer[:n]); response != nil {
				_, _ = conn.WriteTo(response, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func (r *Records) respond(query []byte) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) == 0 {
		return nil
	}
	m.Response, m.Additionals = true, nil
	question := m.Questions[0]
	name := question.Name
	for range 4 {
		alias := ""
		for _, value := range r.byName[name.String()] {
			header := dnsmessage.ResourceHeader{Name: name, Class: question.Class}
			addr, err := netip.ParseAddr(value)
			switch {
			case err != nil:
				alias = value
				m.Answers = append(m.Answers, dnsmessage.Resource{
					Header: header,
					Body:   &dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName(value)},
				})
			case addr.Is4() && question.Type == dnsmessage.TypeA:
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: addr.As4()}})
			case addr.Is6() && question.Type == dnsmessage.TypeAAAA:
				m.Answers = append(m.Answers, dnsmessage.Resource{
					Header: header,
					Body:   &dnsmessage.AAAAResource{AAAA: addr.As16()},
				})
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
