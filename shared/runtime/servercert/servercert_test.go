package servercert

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/acme"

	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/testing/syncbuffer"
)

// fakeNames owns all names below example.com. The map contains the names at which something is served. The lookup of
// failing.example.com fails.
type fakeNames map[string]bool

var errTable = errors.New("the table is unavailable")

// Owns implements Names.
func (fakeNames) Owns(name string) bool { return strings.HasSuffix(name, ".example.com") }

// Served implements Names.
func (f fakeNames) Served(_ context.Context, name string) (bool, error) {
	if name == "failing.example.com" {
		return false, errTable
	}
	return f[name], nil
}

// logLines are the lines of a log.
type logLines struct{ syncbuffer.Text }

func (l *logLines) log() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// startAuthority starts a server with handler as an ACME authority. It returns the URL
// of the directory, a transport that trusts the server, and the number of its requests.
func startAuthority(
	t *testing.T, handler http.HandlerFunc,
) (directory string, transport http.RoundTripper, n *atomic.Int64) {
	t.Helper()
	n = new(atomic.Int64)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		handler(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, s.Client().Transport, n
}

// TestAuthorityRefusalIsLoggedOnce checks that after a refusal, many
// handshakes cause only one log line and no further requests to the authority.
func TestAuthorityRefusalIsLoggedOnce(t *testing.T) {
	t.Parallel()
	directory, transport, n := startAuthority(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"type":"urn:ietf:params:acme:error:rejectedIdentifier","detail":"Not for you."}`))
	})
	var l logLines
	a := OpenAuthority(AuthorityOptions{
		Directory: directory, Transport: transport, Folder: &memoryFolder{},
		Names: fakeNames{"api.example.com": true}, Log: l.log(),
	})
	for range 20 {
		if cert, err := a.Certificate(t.Context(), "api.example.com"); err == nil || cert != nil {
			t.Fatalf("Certificate(refused) = %v, %v, want nil and an error", cert, err)
		}
	}
	if got := strings.Count(l.String(), "could not be obtained"); got != 1 ||
		!strings.Contains(l.String(), "name=api.example.com") {
		t.Errorf("the refusal is logged %d times, want once with the name: %s", got, l.String())
	}
	if n.Load() > 3 {
		t.Errorf("the authority receives %d requests, want at most 3", n.Load())
	}
}

// TestHandshakeTimesOutForASlowAuthority checks that Certificate returns an
// error after the timeout, and when the handshake's context is canceled.
func TestHandshakeTimesOutForASlowAuthority(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	directory, transport, _ := startAuthority(t, func(http.ResponseWriter, *http.Request) { <-release })
	a := OpenAuthority(AuthorityOptions{
		Directory: directory, Transport: transport, Folder: &memoryFolder{},
		Names: fakeNames{"api.example.com": true}, Log: new(logLines).log(),
	})
	a.timeout = time.Millisecond
	if _, err := a.Certificate(t.Context(), "api.example.com"); !errors.Is(err, errTimeout) {
		t.Errorf("Certificate(slow authority) = %v, want %v", err, errTimeout)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	a.timeout = time.Hour
	if _, err := a.Certificate(canceled, "api.example.com"); !errors.Is(err, context.Canceled) {
		t.Errorf("Certificate(canceled) = %v, want %v", err, context.Canceled)
	}
	close(release)
	if _, err := a.Certificate(t.Context(), "api.example.com"); err == nil { // waits until the requests have ended
		t.Error("Certificate(empty response) error = nil, want one")
	}
}

// TestCertificateIsRequestedOnlyForServedNames checks that a client cannot cause requests to the
// authority with a name at which nothing is served, or with a request at the challenges' path.
func TestCertificateIsRequestedOnlyForServedNames(t *testing.T) {
	t.Parallel()
	directory, transport, n := startAuthority(t, http.NotFound)
	a := OpenAuthority(AuthorityOptions{
		Directory: directory, Transport: transport, Folder: &memoryFolder{},
		Names: fakeNames{"api.example.com": true}, Log: new(logLines).log(),
	})
	if cert, err := a.Certificate(t.Context(), "nobody.example.com"); cert != nil || err != nil {
		t.Errorf("Certificate(unserved name) = %v, %v, want neither", cert, err)
	}
	if _, err := a.Certificate(t.Context(), "failing.example.com"); !errors.Is(err, errTable) {
		t.Errorf("Certificate(failing lookup) = %v, want %v", err, errTable)
	}
	if cert, err := a.Challenge(t.Context(), "api.example.com"); cert != nil || err != nil {
		t.Errorf("Challenge(none in progress) = %v, %v, want neither", cert, err)
	}
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	for _, address := range []string{
		"http://example.org/.well-known/acme-challenge/x", "http://nobody.example.com/.well-known/acme-challenge/x",
		"http://api.example.com/.well-known/acme-challenge/x",
		"http://failing.example.com/.well-known/acme-challenge/x",
		"http://api.example.com/.well-known/acme-challenge/acme_account", "http://api.example.com/x",
	} {
		r := httptest.NewRequest(http.MethodGet, address, nil)
		w := httptest.NewRecorder()
		if a.Challenges(next).ServeHTTP(w, r); w.Code != http.StatusTeapot || w.Body.Len() != 0 {
			t.Errorf("GET %s = %d %s, want %d of the next handler", address, w.Code, w.Body, http.StatusTeapot)
		}
	}
	if n.Load() != 0 {
		t.Errorf("the authority receives %d requests, want none", n.Load())
	}
}

func TestLateRenewalIsLoggedOnceADay(t *testing.T) {
	t.Parallel()
	ca := pkitest.CA(t, "CA", time.Now())
	for name, tt := range map[string]struct {
		validity, remaining time.Duration
		want                int
	}{
		"late":                   {90 * 24 * time.Hour, 9 * 24 * time.Hour, 1},
		"in time":                {90 * 24 * time.Hour, 11 * 24 * time.Hour, 0},
		"a short validity":       {6 * 24 * time.Hour, 3 * 24 * time.Hour, 0},
		"an expired certificate": {90 * 24 * time.Hour, -time.Hour, 1},
		"no certificate":         {0, 0, 0},
	} {
		var l logLines
		a := OpenAuthority(AuthorityOptions{Log: l.log()})
		cert := ca.Client(t, "x", time.Now(), func(x *x509.Certificate) {
			x.NotAfter = time.Now().Add(tt.remaining)
			x.NotBefore = x.NotAfter.Add(-tt.validity)
		}).TLS(t)
		if tt.validity == 0 {
			cert.Leaf = nil
		}
		for range 3 {
			a.warnExpiring(t.Context(), "x", &cert)
		}
		if got := strings.Count(l.String(), "ends soon"); got != tt.want {
			t.Errorf("%s: the warning is logged %d times, want %d", name, got, tt.want)
		}
	}
}

// TestChangedFilesAreReloaded checks that changed files are read again,
// but only after checkInterval, and that invalid files are not served.
func TestChangedFilesAreReloaded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := pkitest.CA(t, "CA", time.Now())
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	renew := func(validity time.Duration) pkitest.Cert {
		c := ca.Client(t, "x", time.Now(), func(x *x509.Certificate) {
			x.DNSNames, x.NotAfter = []string{"*.example.com"}, time.Now().Add(validity)
		})
		write("cert", c.PEM())
		write("key", c.KeyPEM(t))
		return c
	}
	first := renew(-time.Minute)
	now := time.Now()
	var l logLines
	f, err := OpenFiles(t.Context(), FileOptions{
		Certificate: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"), Names: fakeNames{},
		Hosts: []string{"a.example.com"},
		Now:   func() time.Time { return now }, Log: l.log(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(l.String(), "has ended") {
		t.Errorf("log = %s, want a warning that the certificate has ended", l.String())
	}
	checkServed := func(description string, want pkitest.Cert) {
		t.Helper()
		cert, err := f.Certificate(t.Context(), "a.example.com")
		if err != nil || cert.Leaf.SerialNumber.Cmp(want.SerialNumber) != 0 {
			t.Errorf("%s: Certificate() = %v, %v, want the serial number %v", description, cert, err, want.SerialNumber)
		}
	}
	second := renew(time.Hour)
	checkServed("right after the change", first)
	now = now.Add(checkInterval)
	checkServed("after checkInterval", second)
	now = now.Add(-time.Hour)
	checkServed("when the clock is set back", second)
	for description, corrupt := range map[string]func(){
		"a deleted file":   func() { _ = os.Remove(filepath.Join(dir, "key")) },
		"a truncated file": func() { write("cert", second.PEM()[:100]) },
		"the key of another certificate": func() {
			write("cert", second.PEM())
			write("key", first.KeyPEM(t))
		},
	} {
		corrupt()
		now = now.Add(checkInterval)
		checkServed(description, second)
	}
	if !strings.Contains(l.String(), "still served") || strings.Contains(l.String(), "PRIVATE") {
		t.Errorf("log = %s, want a warning that the previous certificate is served, and no private key", l.String())
	}
	third := renew(2 * time.Hour)
	now = now.Add(checkInterval)
	checkServed("after a valid change", third)
}

// TestLostAccountIsRegisteredAgain checks that the manager is replaced
// if the authority has lost the account, at most once a minute.
func TestLostAccountIsRegisteredAgain(t *testing.T) {
	t.Parallel()
	a := OpenAuthority(AuthorityOptions{Folder: &memoryFolder{}, Names: fakeNames{}, Log: new(logLines).log()})
	first := a.manager.Load()
	a.reregister(errors.New("another error"))
	a.reregister(&acme.Error{ProblemType: "urn:ietf:params:acme:error:rateLimited"})
	if a.manager.Load() != first {
		t.Error("reregister(another error) replaces the manager, want it kept")
	}
	lost := fmt.Errorf("order: %w", &acme.Error{ProblemType: "urn:ietf:params:acme:error:accountDoesNotExist"})
	a.reregister(lost)
	second := a.manager.Load()
	a.reregister(lost)
	if second == first {
		t.Error("reregister(lost account) keeps the manager, want it replaced")
	}
	if a.manager.Load() != second {
		t.Error("second reregister(lost account) replaces the manager, want it kept for a minute")
	}
}
