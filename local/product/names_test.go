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
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/ids"
)

// TestDomainLeavesRoomBelow, and is what every client takes for a name.
func TestDomainLeavesRoomBelow(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("abcdefghi.", 18) // 180
	for text, want := range map[string]bool{
		"example.com": true, "localhost": true, "xn--mnchen-3ya.example": true, "api.example.com": true, "0a1.example": true, long + "abcdefghi": true,
		long + "abcdefghij": false, "": false, "*.example.com": false, "münchen.example": false, "example.com.": false, ".example.com": false, "a..b": false,
		"a_b.example": false, "-a.example": false, "a b": false, "a:80": false, "a/b": false, "a\nb": false, "{deployment}.x": false, "xn--a.example": false,
		"192.0.2.1": false, "::1": false, "1.2.3": false, "127.1": false, "example.123": false, "example.0x7f": false, "Example.com": false,
	} {
		if got := isDomain(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// looked is what a table says of a name.
type looked struct {
	served bool
	err    error
}

// Owns implements owncert.Names.
func (looked) Owns(string) bool { return true }

// Served implements owncert.Names.
func (l looked) Served(context.Context, string) (bool, error) { return l.served, l.err }

// TestPlainHTTPLeadsWhoReadsAlone, to the port that URLs name; nothing is passed on where nobody knows what is served.
func TestPlainHTTPLeadsWhoReadsAlone(t *testing.T) {
	t.Parallel()
	refuse := apigateway.Refusal{IDs: ids.NewSource(strings.NewReader(strings.Repeat("x", 4096)), time.Now), Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	gateway := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	for name, tt := range map[string]struct {
		names    looked
		method   string
		body     io.Reader
		key      string
		status   int
		location string
	}{
		"who reads":           {looked{served: true}, "GET", nil, "", 308, "https://x.example.com//a%2Fb?c=%0d"},
		"the head alone":      {looked{served: true}, "HEAD", nil, "", 308, "https://x.example.com//a%2Fb?c=%0d"},
		"who sends":           {looked{served: true}, "POST", nil, "", 400, ""},
		"who reads and sends": {looked{served: true}, "GET", strings.NewReader("secret"), "", 400, ""},
		"without a length":    {looked{served: true}, "GET", io.MultiReader(strings.NewReader("secret")), "", 400, ""},
		"a key":               {looked{served: true}, "GET", nil, "Bearer x", 400, ""},
		"a session":           {looked{served: true}, "GET", nil, "", 400, ""},
		"nothing there":       {looked{}, "POST", nil, "Bearer x", 418, ""},
		"nobody knows":        {looked{err: errors.New("away")}, "GET", nil, "", 503, ""},
	} {
		r := httptest.NewRequest(tt.method, "http://X.example.com.:80//a%2Fb?c=%0d", tt.body)
		if tt.key != "" {
			r.Header.Set("Authorization", tt.key)
		}
		if name == "a session" {
			r.AddCookie(&http.Cookie{Name: credential.SessionCookie, Value: "x"})
		}
		w := httptest.NewRecorder()
		plainly(tt.names, refuse, gateway).ServeHTTP(w, r)
		if w.Code != tt.status || w.Header().Get("Location") != tt.location {
			t.Errorf("%s: %d to %q, want %d to %q", name, w.Code, w.Header().Get("Location"), tt.status, tt.location)
		}
	}
}

// TestNamesOfItsOwnAreServed: the relay's where there is one.
func TestNamesOfItsOwnAreServed(t *testing.T) {
	t.Parallel()
	n := names{domain: "example.com", relayed: true}
	for name, want := range map[string]bool{"api.example.com": n.isAPI("api.example.com"), "relay.example.com": n.isRelay("relay.example.com")} {
		if served, err := n.Served(t.Context(), name); !want || !served || err != nil || !n.Owns(name) {
			t.Errorf("%s: %v %v", name, served, err)
		}
	}
	if (names{domain: "example.com"}).isRelay("relay.example.com") || n.isAPI("relay.example.com") || n.isAPI("example.com") || n.isRelay("api.example.com") {
		t.Error("a name is taken for another's")
	}
}

// TestDomainIsCheckedBeforeAnythingIsMade.
func TestDomainIsCheckedBeforeAnythingIsMade(t *testing.T) {
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
		"a laptop":               {Laptop, nil, ""},
		"a server without one":   {Server, nil, config.VarDomain + " is not set"},
		"files without a domain": {Laptop, map[string]string{config.VarTLSCertificate: file, config.VarTLSKey: file}, "set " + config.VarDomain},
		"files that are none":    {Server, map[string]string{config.VarDomain: "example.com", config.VarTLSCertificate: file, config.VarTLSKey: file}, "has no certificate"},
		"a proxy ends TLS":       {Server, map[string]string{config.VarDomain: "Example.com", config.VarTLSAddr: config.NoAddr}, ""},
		"an authority":           {Server, map[string]string{config.VarDomain: "example.com", config.VarACMEDirectory: "https://x/"}, ""},
		"neither":                {Server, map[string]string{config.VarDomain: "example.com"}, "no certificate yet"},
		"a key alone":            {Server, map[string]string{config.VarDomain: "example.com", config.VarTLSKey: file}, "go together"},
		"one address for two":    {Server, map[string]string{config.VarDomain: "example.com", config.VarACMEDirectory: "https://x/", config.VarAdminAddr: ":443"}, config.VarTLSAddr + " and " + config.VarAdminAddr + " are both :443: give each"},
		"the relay's, unused":    {Server, map[string]string{config.VarDomain: "example.com", config.VarACMEDirectory: "https://x/", config.VarRelayAddr: ":443"}, ""},
		"any ports":              {Laptop, map[string]string{config.VarAPIAddr: "127.0.0.1:0", config.VarGatewayAddr: "127.0.0.1:0"}, ""},
		"a dot at its end":       {Server, map[string]string{config.VarDomain: "example.com."}, "a dot at its end"},
	} {
		s, err := tt.program.settings(func(v string) string { return tt.env[v] })
		if err != nil {
			t.Fatal(err)
		}
		err = s.check()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if s.privateUpstreams != (tt.program.Typed == Laptop.Typed) {
			t.Errorf("%s: private upstreams may be called: %v", name, s.privateUpstreams)
		}
	}
}

// TestTextOfAFileIsNoName, and is repeated nowhere; nor is a name with a space behind it, which is another file's.
func TestTextOfAFileIsNoName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		config.VarTLSCertificate, config.VarTLSKey, config.VarDataDir, config.VarReadyFile, config.VarFunctions, config.VarDynoxide, config.VarDocsWeights,
	} {
		for _, value := range []string{"-----BEGIN PRIVATE KEY-----\nsecret\n-----END PRIVATE KEY-----", "secret ", " secret", " ", "secret\n", "secret\x1b[31m"} {
			_, err := Server.settings(func(v string) string { return map[string]string{name: value}[v] })
			if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s=%q: %v", name, value, err)
			}
		}
		if _, err := Server.settings(func(v string) string { return map[string]string{name: "/srv/a folder/é"}[v] }); err != nil {
			t.Error(err)
		}
	}
}
