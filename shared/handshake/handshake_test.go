package handshake_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/gatewright/gatewright/shared/handshake"
)

// source has a certificate for each of its names, which says in its first bytes whose it is.
type source map[string]string

func (s source) Owns(name string) bool { return s[name] != "" }

func (s source) Certificate(_ context.Context, name string) (*tls.Certificate, error) {
	return &tls.Certificate{Certificate: [][]byte{[]byte(s[name])}}, nil
}

// challenged answers the challenge of its names.
type challenged struct {
	source
	answer *tls.Certificate
	err    error
}

func (c challenged) Challenge(context.Context, string) (*tls.Certificate, error) {
	return c.answer, c.err
}

type clients struct {
	cas *x509.CertPool
	err error
}

func (c clients) ClientCAs(context.Context, string) (*x509.CertPool, error) { return c.cas, c.err }

func config(c clients, sources ...handshake.Source) *tls.Config {
	return handshake.Config(handshake.Options{Sources: sources, Clients: c, Log: slog.New(slog.DiscardHandler)})
}

func TestNameIsOfTheFirstSourceThatOwnsIt(t *testing.T) {
	first := source{"api.example.com": "first", "": "nobody"}
	c := config(clients{}, first, source{"api.example.com": "second", "docs.example.com": "second"})
	if c.MinVersion != tls.VersionTLS12 || !slices.Equal(c.NextProtos, []string{"h2", "http/1.1"}) {
		t.Errorf("it speaks %v from version %x on", c.NextProtos, c.MinVersion)
	}
	for name, want := range map[string]string{
		"api.example.com": "first", "API.Example.com": "first", "api.example.com.": "first", "docs.example.com": "second", "stranger.example.com": "", "": "",
	} {
		got := ""
		its, err := c.GetCertificate(&tls.ClientHelloInfo{ServerName: name})
		if its != nil {
			got = string(its.Certificate[0])
		}
		if got != want || err != nil {
			t.Errorf("%q has the certificate %q, %v, want %q", name, got, err, want)
		}
		switch its, err := c.GetConfigForClient(&tls.ClientHelloInfo{ServerName: name}); {
		case err != nil:
			t.Errorf("%q is refused: %v", name, err)
		case (its == nil) != (want != ""):
			t.Errorf("%q is answered with %+v", name, its)
		case its != nil && (!its.SessionTicketsDisabled || its.ClientAuth != tls.NoClientCert || len(its.Certificates) != 0):
			t.Errorf("%q of nobody is answered with %+v", name, its)
		}
	}
}

// TestClientsAreAskedWhereTheAccountHasCAs, and where nobody knows: a route that needs a
// certificate refuses who shows none.
func TestClientsAreAskedWhereTheAccountHasCAs(t *testing.T) {
	cas := x509.NewCertPool()
	for name, tt := range map[string]struct {
		clients       clients
		asks, refuses bool
	}{
		"no CAs":                 {clients{}, false, false},
		"CAs":                    {clients{cas: cas}, true, false},
		"nobody says":            {clients{err: errors.New("away")}, true, false},
		"a client that has gone": {clients{err: context.Canceled}, false, true},
	} {
		its, err := config(tt.clients, source{"api.example.com": "first"}).GetConfigForClient(&tls.ClientHelloInfo{ServerName: "api.example.com"})
		if (err != nil) != tt.refuses || (its != nil) != tt.asks {
			t.Errorf("%s: %v, %v", name, its, err)
			continue
		}
		if its != nil && (its.ClientAuth != tls.RequestClientCert || !its.SessionTicketsDisabled || its.ClientCAs != tt.clients.cas || its.GetCertificate == nil) {
			t.Errorf("%s: %+v", name, its)
		}
	}
}

func TestLongChainsOfClientsAreRefused(t *testing.T) {
	asks, err := config(clients{cas: x509.NewCertPool()}, source{"api.example.com": "first"}).GetConfigForClient(&tls.ClientHelloInfo{ServerName: "api.example.com"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		certificates, bytes int
		refused             bool
	}{{0, 0, false}, {1, 64 << 10, false}, {1, 64<<10 + 1, true}, {10, 1 << 10, false}, {11, 1 << 10, true}, {2, 32 << 10, false}, {2, 32<<10 + 1, true}} {
		var s tls.ConnectionState
		for range tt.certificates {
			s.PeerCertificates = append(s.PeerCertificates, &x509.Certificate{Raw: make([]byte, tt.bytes)})
		}
		if err := asks.VerifyConnection(s); (err != nil) != tt.refused {
			t.Errorf("%d certificates of %d bytes: %v", tt.certificates, tt.bytes, err)
		}
	}
}

// TestAuthoritiesAreAnsweredAlone: who asks for more than the challenge is a client (RFC 8737,
// section 3).
func TestAuthoritiesAreAnsweredAlone(t *testing.T) {
	names, answer := source{"api.example.com": "first"}, &tls.Certificate{Certificate: [][]byte{[]byte("answer")}}
	for name, tt := range map[string]struct {
		source           handshake.Source
		protocols        []string
		answers, refuses bool
	}{
		"an authority":               {challenged{names, answer, nil}, []string{"acme-tls/1"}, true, false},
		"a client":                   {challenged{names, answer, nil}, []string{"acme-tls/1", "http/1.1"}, false, false},
		"no challenge":               {challenged{names, nil, nil}, []string{"acme-tls/1"}, false, true},
		"nobody knows":               {challenged{names, nil, errors.New("away")}, []string{"acme-tls/1"}, false, true},
		"a name without authorities": {names, []string{"acme-tls/1"}, false, true},
	} {
		its, err := config(clients{}, tt.source).GetConfigForClient(&tls.ClientHelloInfo{ServerName: "api.example.com", SupportedProtos: tt.protocols})
		if (err != nil) != tt.refuses || (its != nil) != tt.answers {
			t.Errorf("%s: %v, %v", name, its, err)
			continue
		}
		if its != nil && (!slices.Equal(its.NextProtos, []string{"acme-tls/1"}) || len(its.Certificates) != 1 || string(its.Certificates[0].Certificate[0]) != "answer") {
			t.Errorf("%s: %+v", name, its)
		}
	}
}

// TestClientThatWasNotAskedConnectsAnew: a browser sends on a connection what is for any name of
// its certificate, and who was not asked there could only be refused.
func TestClientThatWasNotAskedConnectsAnew(t *testing.T) {
	for name, tt := range map[string]struct {
		clients    clients
		sni, host  string
		misdirects bool
	}{
		"its own name":              {clients{cas: x509.NewCertPool()}, "a.example.com", "a.example.com", false},
		"its own name, as written":  {clients{cas: x509.NewCertPool()}, "A.example.com.", "a.EXAMPLE.com:8443", false},
		"another without CAs":       {clients{}, "a.example.com", "b.example.com", false},
		"another with CAs":          {clients{cas: x509.NewCertPool()}, "a.example.com", "b.example.com", true},
		"another of which none say": {clients{err: errors.New("away")}, "a.example.com", "b.example.com", true},
		"no name":                   {clients{cas: x509.NewCertPool()}, "", "b.example.com", true},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Host, r.TLS = tt.host, &tls.ConnectionState{ServerName: tt.sni}
		if got := handshake.Misdirected(tt.clients)(r); got != tt.misdirects {
			t.Errorf("%s: %v", name, got)
		}
	}
}
