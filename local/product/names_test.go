package product

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/local/apigateway"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/format/credential"
)

// TestIsDomain checks which texts isDomain accepts: only names that all clients parse as host names, and that are short
// enough for the names of deployments below them.
func TestIsDomain(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("abcdefghi.", 18) // 180 characters
	for text, want := range map[string]bool{
		"example.com": true, "localhost": true, "xn--mnchen-3ya.example": true, "api.example.com": true, "0a1.example": true,
		long + "abcdefghi":  true,
		long + "abcdefghij": false, "": false, "*.example.com": false, "münchen.example": false, "example.com.": false,
		".example.com": false, "a..b": false,
		"a_b.example": false, "-a.example": false, "a b": false, "a:80": false, "a/b": false, "a\nb": false,
		"{deployment}.x": false, "xn--a.example": false,
		"192.0.2.1": false, "::1": false, "1.2.3": false, "127.1": false, "example.123": false, "example.0x7f": false,
		"Example.com": false,
	} {
		if got := isDomain(text); got != want {
			t.Errorf("isDomain(%q) = %v, want %v", text, got, want)
		}
	}
}

// fakeNames returns the same result for every name.
type fakeNames struct {
	served bool
	err    error
}

// Owns implements servercert.Names.
func (fakeNames) Owns(string) bool { return true }

// Served implements servercert.Names.
func (f fakeNames) Served(context.Context, string) (bool, error) { return f.served, f.err }

// TestPlainHTTPRedirectsOnlyReads checks that only GET and HEAD requests without a body or credentials
// are redirected, to a URL without a port. If the lookup of the name fails, the request gets a 503.
func TestPlainHTTPRedirectsOnlyReads(t *testing.T) {
	t.Parallel()
	refusal := apigateway.Refuser{
		IDs: ids.NewSource(strings.NewReader(strings.Repeat("x", 4096)), time.Now),
		Now: time.Now, Log: slog.New(slog.DiscardHandler),
	}
	gateway := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	for name, tt := range map[string]struct {
		names    fakeNames
		method   string
		body     io.Reader
		auth     string // the Authorization field
		status   int
		location string
	}{
		"GET": {
			fakeNames{served: true}, "GET", nil, "", 308, "https://x.example.com//a%2Fb?c=%0d",
		},
		"HEAD": {
			fakeNames{served: true}, "HEAD", nil, "", 308, "https://x.example.com//a%2Fb?c=%0d",
		},
		"POST":            {fakeNames{served: true}, "POST", nil, "", 400, ""},
		"GET with a body": {fakeNames{served: true}, "GET", strings.NewReader("secret"), "", 400, ""},
		"GET with a body of unknown length": {
			fakeNames{served: true}, "GET", io.MultiReader(strings.NewReader("secret")), "", 400, "",
		},
		"GET with a key":     {fakeNames{served: true}, "GET", nil, "Bearer x", 400, ""},
		"GET with a session": {fakeNames{served: true}, "GET", nil, "", 400, ""},
		"an unknown host":    {fakeNames{}, "POST", nil, "Bearer x", 418, ""},
		"a failing look-up":  {fakeNames{err: errors.New("away")}, "GET", nil, "", 503, ""},
	} {
		r := httptest.NewRequest(tt.method, "http://X.example.com.:80//a%2Fb?c=%0d", tt.body)
		if tt.auth != "" {
			r.Header.Set("Authorization", tt.auth)
		}
		if name == "GET with a session" {
			r.AddCookie(&http.Cookie{Name: credential.SessionCookie, Value: "x"})
		}
		w := httptest.NewRecorder()
		redirectToHTTPS(tt.names, refusal, gateway).ServeHTTP(w, r)
		if w.Code != tt.status || w.Header().Get("Location") != tt.location {
			t.Errorf("%s: status and Location = %d, %q, want %d, %q",
				name, w.Code, w.Header().Get("Location"), tt.status, tt.location)
		}
	}
}

// TestInstallationNamesAreServed checks the names of the API and the
// relay. The relay's name is served only if the installation has a relay.
func TestInstallationNamesAreServed(t *testing.T) {
	t.Parallel()
	n := names{domain: "example.com", hasRelay: true}
	for name, recognized := range map[string]bool{
		"api.example.com":   n.isAPI("api.example.com"),
		"relay.example.com": n.isRelay("relay.example.com"),
	} {
		if !recognized {
			t.Errorf("isAPI() or isRelay() of its name %s = false, want true", name)
		}
		if served, err := n.Served(t.Context(), name); !served || err != nil {
			t.Errorf("Served(%s) = %v, %v, want true and no error", name, served, err)
		}
		if !n.Owns(name) {
			t.Errorf("Owns(%s) = false, want true", name)
		}
	}
	for call, got := range map[string]bool{
		"isRelay(relay.example.com) without a relay": names{domain: "example.com"}.isRelay("relay.example.com"),
		"isAPI(relay.example.com)":                   n.isAPI("relay.example.com"),
		"isAPI(example.com)":                         n.isAPI("example.com"),
		"isRelay(api.example.com)":                   n.isRelay("api.example.com"),
	} {
		if got {
			t.Errorf("%s = true, want false", call)
		}
	}
}

// TestSettingsAreCheckedBeforeDataIsCreated checks the errors of settings.check, which a start calls before it creates
// data. It also checks that only a laptop may call private upstreams by default.
func TestSettingsAreCheckedBeforeDataIsCreated(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "none.pem")
	if err := os.WriteFile(file, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		program Program
		env     map[string]string
		want    string
	}{
		"a laptop":                  {Laptop, nil, ""},
		"a server without a domain": {Server, nil, config.VarDomain + " is not set"},
		"files without a domain": {
			Laptop,
			map[string]string{config.VarTLSCertificate: file, config.VarTLSKey: file},
			"set " + config.VarDomain,
		},
		"files without a certificate in them": {Server, map[string]string{
			config.VarDomain: "example.com", config.VarTLSCertificate: file,
			config.VarTLSKey: file,
		}, "has no certificate"},
		"TLS ended by a proxy": {Server, map[string]string{
			config.VarDomain:  "Example.com",
			config.VarTLSAddr: config.NoAddr,
		}, ""},
		"certificates from an authority": {Server, map[string]string{
			config.VarDomain:        "example.com",
			config.VarACMEDirectory: "https://x/",
		}, ""},
		"TLS without files or an authority": {
			Server, map[string]string{config.VarDomain: "example.com"}, "no certificate yet",
		},
		"a key without a certificate": {
			Server,
			map[string]string{config.VarDomain: "example.com", config.VarTLSKey: file},
			"go together",
		},
		"one address for two listeners": {
			Server,
			map[string]string{
				config.VarDomain:        "example.com",
				config.VarACMEDirectory: "https://x/", config.VarAdminAddr: ":443",
			},
			config.VarTLSAddr + " and " + config.VarAdminAddr + " are both :443: give each",
		},
		"the address of an unused relay": {Server, map[string]string{
			config.VarDomain:        "example.com",
			config.VarACMEDirectory: "https://x/", config.VarRelayAddr: ":443",
		}, ""},
		"ports chosen by the system": {Laptop, map[string]string{
			config.VarAPIAddr:     "127.0.0.1:0",
			config.VarGatewayAddr: "127.0.0.1:0",
		}, ""},
		"a domain that ends with a dot": {Server, map[string]string{config.VarDomain: "example.com."}, "a dot at its end"},
	} {
		s, err := tt.program.settings(func(v string) string { return tt.env[v] })
		if err != nil {
			t.Fatalf("%s: settings() = %v, want no error", name, err)
		}
		err = s.check()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: check() = %v, want an error with %q, or nil if it is empty", name, err, tt.want)
		}
		if s.privateUpstreams != (tt.program.Invocation == Laptop.Invocation) {
			t.Errorf("%s: privateUpstreams = %v, want %v", name, s.privateUpstreams,
				tt.program.Invocation == Laptop.Invocation)
		}
	}
}

// TestFileContentAsPathIsRefused checks that settings for file names reject the content of a file, and names that begin
// or end with a space. The error does not repeat the value.
func TestFileContentAsPathIsRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		config.VarTLSCertificate, config.VarTLSKey, config.VarDataDir, config.VarReadyFile, config.VarFunctions,
		config.VarDynoxide, config.VarDocsWeights,
	} {
		for _, value := range []string{
			"-----BEGIN PRIVATE KEY-----\nsecret\n-----END PRIVATE KEY-----", "secret ", " secret",
			" ", "secret\n", "secret\x1b[31m",
		} {
			_, err := Server.settings(func(v string) string { return map[string]string{name: value}[v] })
			if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "secret") {
				t.Errorf("settings(%s=%q) = %v, want an error with the name and without the value", name, value, err)
			}
		}
		if _, err := Server.settings(func(v string) string {
			return map[string]string{name: "/srv/a folder/é"}[v]
		}); err != nil {
			t.Errorf("settings(%s=a valid path) = %v, want no error", name, err)
		}
	}
}
