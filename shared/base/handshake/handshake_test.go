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

	"github.com/gatewright/gatewright/shared/base/handshake"
)

// source is a Source with a certificate for each key of the map. The map's value stands in place of the certificate's
// bytes.
type source map[string]string

func (s source) Owns(name string) bool { return s[name] != "" }

func (s source) Certificate(_ context.Context, name string) (*tls.Certificate, error) {
	return &tls.Certificate{Certificate: [][]byte{[]byte(s[name])}}, nil
}

// acmeChallenge is a source that also has a challenge certificate for each of its names.
type acmeChallenge struct {
	source
	cert *tls.Certificate
	err  error
}

func (c acmeChallenge) Challenge(context.Context, string) (*tls.Certificate, error) {
	return c.cert, c.err
}

// clients is a ClientCALookup that returns these CAs or this error for each name.
type clients struct {
	cas *x509.CertPool
	err error
}

func (c clients) ClientCAs(context.Context, string) (*x509.CertPool, error) { return c.cas, c.err }

func config(c clients, sources ...handshake.Source) *tls.Config {
	return handshake.Config(handshake.Options{Sources: sources, Clients: c, Log: slog.New(slog.DiscardHandler)})
}

func TestFirstOwningSourceServesName(t *testing.T) {
	first := source{"api.example.com": "first", "": "nobody"}
	c := config(clients{}, first, source{"api.example.com": "second", "docs.example.com": "second"})
	if c.MinVersion != tls.VersionTLS12 || !slices.Equal(c.NextProtos, []string{"h2", "http/1.1"}) {
		t.Errorf("config() = minimum version %x, protocols %v, want %x, [h2 http/1.1]",
			c.MinVersion, c.NextProtos, tls.VersionTLS12)
	}
	for name, want := range map[string]string{
		"api.example.com": "first", "API.Example.com": "first", "api.example.com.": "first", "docs.example.com": "second",
		"stranger.example.com": "", "": "",
	} {
		got := ""
		selected, err := c.GetCertificate(&tls.ClientHelloInfo{ServerName: name})
		if selected != nil {
			got = string(selected.Certificate[0])
		}
		if got != want || err != nil {
			t.Errorf("GetCertificate(%q) = %q, %v, want %q and no error", name, got, err, want)
		}
		switch selected, err := c.GetConfigForClient(&tls.ClientHelloInfo{ServerName: name}); {
		case err != nil:
			t.Errorf("GetConfigForClient(%q) error = %v, want none", name, err)
		case (selected == nil) != (want != ""):
			t.Errorf("GetConfigForClient(%q) returns a config: %t, want one only for a name without a certificate (%q)",
				name, selected != nil, want)
		case selected != nil && (!selected.SessionTicketsDisabled || selected.ClientAuth != tls.NoClientCert ||
			len(selected.Certificates) != 0):
			t.Errorf("GetConfigForClient(%q): tickets disabled = %t, client authentication = %v, certificates = %d, "+
				"want true, %v and 0",
				name, selected.SessionTicketsDisabled, selected.ClientAuth, len(selected.Certificates), tls.NoClientCert)
		}
	}
}

// TestClientCertIsRequestedIfAccountHasCAs checks that clients are asked for a certificate if the account has CAs, and
// also if the CAs cannot be looked up, because a route that needs a certificate refuses clients without one.
func TestClientCertIsRequestedIfAccountHasCAs(t *testing.T) {
	cas := x509.NewCertPool()
	for name, tt := range map[string]struct {
		clients               clients
		requestsCert, wantErr bool
	}{
		"no CAs":                {clients{}, false, false},
		"CAs":                   {clients{cas: cas}, true, false},
		"a failing look-up":     {clients{err: errors.New("unavailable")}, true, false},
		"a disconnected client": {clients{err: context.Canceled}, false, true},
	} {
		cfg, err := config(tt.clients, source{"api.example.com": "first"}).GetConfigForClient(
			&tls.ClientHelloInfo{ServerName: "api.example.com"})
		if (err != nil) != tt.wantErr || (cfg != nil) != tt.requestsCert {
			t.Errorf("%s: GetConfigForClient() returns a config: %t, error = %v, want a config: %t, an error: %t",
				name, cfg != nil, err, tt.requestsCert, tt.wantErr)
			continue
		}
		if cfg != nil && (cfg.ClientAuth != tls.RequestClientCert || !cfg.SessionTicketsDisabled ||
			cfg.ClientCAs != tt.clients.cas || cfg.GetCertificate == nil) {
			t.Errorf("%s: GetConfigForClient(): client authentication = %v, tickets disabled = %t, the account's CAs: %t, "+
				"GetCertificate is set: %t, want %v, true, true and true",
				name, cfg.ClientAuth, cfg.SessionTicketsDisabled, cfg.ClientCAs == tt.clients.cas, cfg.GetCertificate != nil,
				tls.RequestClientCert)
		}
	}
}

func TestLongClientChainsAreRefused(t *testing.T) {
	cfg, err := config(clients{cas: x509.NewCertPool()},
		source{"api.example.com": "first"}).GetConfigForClient(&tls.ClientHelloInfo{ServerName: "api.example.com"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		certificates, bytes int
		refused             bool
	}{
		{0, 0, false},
		{1, 64 << 10, false},
		{1, 64<<10 + 1, true},
		{10, 1 << 10, false},
		{11, 1 << 10, true},
		{2, 32 << 10, false},
		{2, 32<<10 + 1, true},
	} {
		var s tls.ConnectionState
		for range tt.certificates {
			s.PeerCertificates = append(s.PeerCertificates, &x509.Certificate{Raw: make([]byte, tt.bytes)})
		}
		if err := cfg.VerifyConnection(s); (err != nil) != tt.refused {
			t.Errorf("VerifyConnection(%d certificates of %d bytes) = %v, want an error %v",
				tt.certificates, tt.bytes, err, tt.refused)
		}
	}
}

// TestChallengeCertIsServedOnlyToACME checks that only a handshake that offers exactly the protocol acme-tls/1 gets the
// challenge certificate. A handshake that also offers other protocols is of an ordinary client (RFC 8737, section 3).
func TestChallengeCertIsServedOnlyToACME(t *testing.T) {
	names, cert := source{"api.example.com": "first"}, &tls.Certificate{Certificate: [][]byte{[]byte("answer")}}
	for name, tt := range map[string]struct {
		source            handshake.Source
		protocols         []string
		wantCert, wantErr bool
	}{
		"an authority's handshake": {acmeChallenge{names, cert, nil}, []string{"acme-tls/1"}, true, false},
		"a client that also supports HTTP/1.1": {
			acmeChallenge{names, cert, nil}, []string{"acme-tls/1", "http/1.1"}, false, false,
		},
		"no challenge": {acmeChallenge{names, nil, nil}, []string{"acme-tls/1"}, false, true},
		"a failing look-up": {
			acmeChallenge{names, nil, errors.New("unavailable")}, []string{"acme-tls/1"}, false, true,
		},
		"a source without challenges": {names, []string{"acme-tls/1"}, false, true},
	} {
		cfg, err := config(clients{}, tt.source).GetConfigForClient(&tls.ClientHelloInfo{
			ServerName:      "api.example.com",
			SupportedProtos: tt.protocols,
		})
		if (err != nil) != tt.wantErr || (cfg != nil) != tt.wantCert {
			t.Errorf("%s: GetConfigForClient() returns a config: %t, error = %v, want a config: %t, an error: %t",
				name, cfg != nil, err, tt.wantCert, tt.wantErr)
			continue
		}
		if cfg != nil && (!slices.Equal(cfg.NextProtos, []string{"acme-tls/1"}) || len(cfg.Certificates) != 1 ||
			string(cfg.Certificates[0].Certificate[0]) != "answer") {
			t.Errorf("%s: GetConfigForClient(): protocols = %q, certificates = %d, want only acme-tls/1 and the challenge "+
				"certificate", name, cfg.NextProtos, len(cfg.Certificates))
		}
	}
}

// TestMisdirectedWithoutCertRequest checks that a client has to connect again if it was not asked for a certificate.
// Browsers send requests for all names of a server certificate on one connection.
func TestMisdirectedWithoutCertRequest(t *testing.T) {
	for name, tt := range map[string]struct {
		clients   clients
		sni, host string
		want      bool
	}{
		"the same name": {clients{cas: x509.NewCertPool()}, "a.example.com", "a.example.com", false},
		"the same name in another spelling": {
			clients{cas: x509.NewCertPool()}, "A.example.com.", "a.EXAMPLE.com:8443", false,
		},
		"another name without CAs": {clients{}, "a.example.com", "b.example.com", false},
		"another name with CAs":    {clients{cas: x509.NewCertPool()}, "a.example.com", "b.example.com", true},
		"another name and a failing look-up": {
			clients{err: errors.New("unavailable")}, "a.example.com", "b.example.com", true,
		},
		"a handshake without a name": {clients{cas: x509.NewCertPool()}, "", "b.example.com", true},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Host, r.TLS = tt.host, &tls.ConnectionState{ServerName: tt.sni}
		if got := handshake.Misdirected(tt.clients)(r); got != tt.want {
			t.Errorf("%s: Misdirected() = %v, want %v", name, got, tt.want)
		}
	}
}
