package owncert

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

	"github.com/gatewright/gatewright/internal/printed"
	"github.com/gatewright/gatewright/shared/pki/pkitest"
)

// fewNames are below example.com; those that are served are listed.
type fewNames map[string]bool

var errTable = errors.New("the table is away")

// Owns implements Names.
func (fewNames) Owns(name string) bool { return strings.HasSuffix(name, ".example.com") }

// Served implements Names.
func (n fewNames) Served(_ context.Context, name string) (bool, error) {
	if name == "away.example.com" {
		return false, errTable
	}
	return n[name], nil
}

// lines are a log's.
type lines struct{ printed.Text }

func (l *lines) log() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// asked is an authority that answers as it likes, and counts.
func asked(t *testing.T, answer http.HandlerFunc) (directory string, transport http.RoundTripper, n *atomic.Int64) {
	t.Helper()
	n = new(atomic.Int64)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, s.Client().Transport, n
}

// TestAuthorityThatRefusesIsToldOnce however many handshakes ask, and is left alone for a while.
func TestAuthorityThatRefusesIsToldOnce(t *testing.T) {
	t.Parallel()
	directory, transport, n := asked(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"type":"urn:ietf:params:acme:error:rejectedIdentifier","detail":"Not for you."}`))
	})
	var l lines
	a := OpenAuthority(AuthorityOptions{Directory: directory, Transport: transport, Folder: &memory{}, Names: fewNames{"api.example.com": true}, Log: l.log()})
	for range 20 {
		if its, err := a.Certificate(t.Context(), "api.example.com"); err == nil || its != nil {
			t.Fatalf("it gives %v, %v", its, err)
		}
	}
	if got := strings.Count(l.String(), "could not be obtained"); got != 1 || !strings.Contains(l.String(), "name=api.example.com") {
		t.Errorf("it is told %d times: %s", got, l.String())
	}
	if n.Load() > 3 {
		t.Errorf("the authority is asked %d times", n.Load())
	}
}

// TestHandshakeDoesNotWaitForASlowAuthority for ever.
func TestHandshakeDoesNotWaitForASlowAuthority(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	directory, transport, _ := asked(t, func(http.ResponseWriter, *http.Request) { <-over })
	a := OpenAuthority(AuthorityOptions{Directory: directory, Transport: transport, Folder: &memory{}, Names: fewNames{"api.example.com": true}, Log: new(lines).log()})
	a.patience = time.Millisecond
	if _, err := a.Certificate(t.Context(), "api.example.com"); !errors.Is(err, errSlow) {
		t.Errorf("it answers %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	a.patience = time.Hour
	if _, err := a.Certificate(gone, "api.example.com"); !errors.Is(err, context.Canceled) {
		t.Errorf("who has left is answered %v", err)
	}
	close(over)
	if _, err := a.Certificate(t.Context(), "api.example.com"); err == nil { // once all is over
		t.Error("an authority that says nothing has given a certificate")
	}
}

// TestAuthorityIsAskedForWhatIsServedAlone: anybody can ask for any name.
func TestAuthorityIsAskedForWhatIsServedAlone(t *testing.T) {
	t.Parallel()
	directory, transport, n := asked(t, http.NotFound)
	a := OpenAuthority(AuthorityOptions{Directory: directory, Transport: transport, Folder: &memory{}, Names: fewNames{"api.example.com": true}, Log: new(lines).log()})
	if its, err := a.Certificate(t.Context(), "nobody.example.com"); its != nil || err != nil {
		t.Errorf("a name of nobody's gives %v, %v", its, err)
	}
	if _, err := a.Certificate(t.Context(), "away.example.com"); !errors.Is(err, errTable) {
		t.Errorf("a name that nobody knows of gives %v", err)
	}
	if its, err := a.Challenge(t.Context(), "api.example.com"); its != nil || err != nil {
		t.Errorf("without a challenge under way it answers %v, %v", its, err)
	}
	beside := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	for _, address := range []string{
		"http://example.org/.well-known/acme-challenge/x", "http://nobody.example.com/.well-known/acme-challenge/x", "http://api.example.com/.well-known/acme-challenge/x",
		"http://away.example.com/.well-known/acme-challenge/x", "http://api.example.com/.well-known/acme-challenge/acme_account", "http://api.example.com/x",
	} {
		r := httptest.NewRequest(http.MethodGet, address, nil)
		w := httptest.NewRecorder()
		if a.Challenges(beside).ServeHTTP(w, r); w.Code != http.StatusTeapot || w.Body.Len() != 0 {
			t.Errorf("%s, which is no challenge's, is answered with %d %s", address, w.Code, w.Body)
		}
	}
	if n.Load() != 0 {
		t.Errorf("the authority is asked %d times", n.Load())
	}
}

// TestLateRenewalIsToldOnceADay.
func TestLateRenewalIsToldOnceADay(t *testing.T) {
	t.Parallel()
	ca := pkitest.CA(t, "CA", time.Now())
	for name, tt := range map[string]struct {
		life, left time.Duration
		want       int
	}{
		"late":                  {90 * 24 * time.Hour, 9 * 24 * time.Hour, 1},
		"in time":               {90 * 24 * time.Hour, 11 * 24 * time.Hour, 0},
		"one that is short":     {6 * 24 * time.Hour, 3 * 24 * time.Hour, 0},
		"one that has ended":    {90 * 24 * time.Hour, -time.Hour, 1},
		"one without its names": {0, 0, 0},
	} {
		var l lines
		a := OpenAuthority(AuthorityOptions{Log: l.log()})
		its := ca.Client(t, "x", time.Now(), func(x *x509.Certificate) {
			x.NotAfter = time.Now().Add(tt.left)
			x.NotBefore = x.NotAfter.Add(-tt.life)
		}).TLS(t)
		if tt.life == 0 {
			its.Leaf = nil
		}
		for range 3 {
			a.tellLate(t.Context(), "x", &its)
		}
		if got := strings.Count(l.String(), "ends soon"); got != tt.want {
			t.Errorf("%s: told %d times, want %d", name, got, tt.want)
		}
	}
}

// TestFilesAreReadWhenTheyHaveChanged, and not for each handshake.
func TestFilesAreReadWhenTheyHaveChanged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := pkitest.CA(t, "CA", time.Now())
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	next := func(life time.Duration) pkitest.Cert {
		c := ca.Client(t, "x", time.Now(), func(x *x509.Certificate) { x.DNSNames, x.NotAfter = []string{"*.example.com"}, time.Now().Add(life) })
		write("cert", c.PEM())
		write("key", c.KeyPEM(t))
		return c
	}
	first := next(-time.Minute)
	now := time.Now()
	var l lines
	f, err := OpenFiles(t.Context(), FileOptions{
		Certificate: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"), Names: fewNames{}, For: []string{"a.example.com"},
		Now: func() time.Time { return now }, Log: l.log(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(l.String(), "has ended") {
		t.Error("nobody is told that the certificate has ended")
	}
	serves := func(what string, want pkitest.Cert) {
		t.Helper()
		its, err := f.Certificate(t.Context(), "a.example.com")
		if err != nil || its.Leaf.SerialNumber.Cmp(want.SerialNumber) != 0 {
			t.Errorf("%s: another certificate is served (%v)", what, err)
		}
	}
	second := next(time.Hour)
	serves("right after the change", first)
	now = now.Add(lookEvery)
	serves("a while after it", second)
	now = now.Add(-time.Hour)
	serves("when the clock is set back", second)
	for what, broken := range map[string]func(){
		"a file that is gone":     func() { _ = os.Remove(filepath.Join(dir, "key")) },
		"a file cut in its midst": func() { write("cert", second.PEM()[:100]) },
		"another's key": func() {
			write("cert", second.PEM())
			write("key", first.KeyPEM(t))
		},
	} {
		broken()
		now = now.Add(lookEvery)
		serves(what, second)
	}
	if !strings.Contains(l.String(), "served on") || strings.Contains(l.String(), "PRIVATE") {
		t.Errorf("it prints %s", l.String())
	}
	third := next(2 * time.Hour)
	now = now.Add(lookEvery)
	serves("when they are good again", third)
}

// TestAccountThatTheAuthorityHasLostIsMadeAnew, once a minute at most.
func TestAccountThatTheAuthorityHasLostIsMadeAnew(t *testing.T) {
	t.Parallel()
	a := OpenAuthority(AuthorityOptions{Folder: &memory{}, Names: fewNames{}, Log: new(lines).log()})
	first := a.manager.Load()
	a.forgotten(errors.New("another error"))
	a.forgotten(&acme.Error{ProblemType: "urn:ietf:params:acme:error:rateLimited"})
	if a.manager.Load() != first {
		t.Error("it begins anew for any error")
	}
	lost := fmt.Errorf("order: %w", &acme.Error{ProblemType: "urn:ietf:params:acme:error:accountDoesNotExist"})
	a.forgotten(lost)
	second := a.manager.Load()
	a.forgotten(lost)
	if second == first || a.manager.Load() != second {
		t.Error("it does not begin anew once")
	}
}
