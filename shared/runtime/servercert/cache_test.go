package servercert

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/acme/autocert"

	"github.com/gatewright/gatewright/shared/resource/issuance/pebbletest"
)

// memoryFolder is a Folder in memory. Write fails with writeErr if it is not nil.
type memoryFolder struct {
	mu       sync.Mutex
	files    map[string]string
	writeErr error
}

// Read implements Folder.
func (m *memoryFolder) Read(name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if content, ok := m.files[name]; ok {
		return []byte(content), nil
	}
	return nil, fmt.Errorf("read %s: %w", name, fs.ErrNotExist)
}

// Write implements Folder.
func (m *memoryFolder) Write(name string, content []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.writeErr != nil {
		return m.writeErr
	}
	if m.files == nil {
		m.files = map[string]string{}
	}
	m.files[name] = string(content)
	return nil
}

// TestChallengeResponsesAreNotStored checks that responses to challenges are neither written
// nor read, because clients choose their names. Certificates and the account's key are stored.
func TestChallengeResponsesAreNotStored(t *testing.T) {
	t.Parallel()
	m := &memoryFolder{}
	k := folderCache{m, new(logLines).log()}
	for _, name := range []string{"token+http-01", "api.example.com+token"} {
		if err := k.Put(t.Context(), name, []byte("answer")); err != nil || len(m.files) != 0 {
			t.Errorf("Put(%s) = %v, files %v, want no error and no file", name, err, m.files)
		}
		m.files = map[string]string{name: "another's"}
		if content, err := k.Get(t.Context(), name); !errors.Is(err, autocert.ErrCacheMiss) {
			t.Errorf("Get(%s) = %s, %v, want %v", name, content, err, autocert.ErrCacheMiss)
		}
		m.files = nil
	}
	for _, name := range []string{"api.example.com", accountKey} {
		if err := k.Put(t.Context(), name, []byte("-----BEGIN X-----\n-----END X-----\n")); err != nil {
			t.Fatal(err)
		}
		if content, err := k.Get(t.Context(), name); err != nil || m.files[name] != string(content) {
			t.Errorf("Get(%s) = %q, %v, want %q", name, content, err, m.files[name])
		}
	}
}

// TestFailedWriteIsLogged checks that a failed write of a certificate is logged. Operators
// have to notice it, because authorities issue the same certificate only a few times per week.
func TestFailedWriteIsLogged(t *testing.T) {
	t.Parallel()
	var l logLines
	errFull := errors.New("no space left on device")
	if err := (folderCache{&memoryFolder{writeErr: errFull}, l.log()}).Put(t.Context(), "api.example.com",
		[]byte("SECRET")); !errors.Is(err, errFull) {
		t.Errorf("Put() = %v, want %v", err, errFull)
	}
	if got := l.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "no space left") ||
		!strings.Contains(got, "file=api.example.com") || strings.Contains(got, "SECRET") {
		t.Errorf("log = %s, want one line with the cause and the file, without the content", got)
	}
}

// TestEmptyAccountKeyIsReplaced checks that an empty file of the account's key is replaced. A power
// failure can leave such a file, and without a new key no certificate could be obtained again.
func TestEmptyAccountKeyIsReplaced(t *testing.T) {
	t.Parallel()
	directory, transport, _ := startAuthority(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	})
	var l logLines
	m := &memoryFolder{files: map[string]string{accountKey: ""}}
	a := OpenAuthority(AuthorityOptions{
		Directory: directory, Transport: transport, Folder: m,
		Names: fakeNames{"api.example.com": true}, Log: l.log(),
	})
	_, _ = a.Certificate(t.Context(), "api.example.com")
	if !strings.Contains(m.files[accountKey], "PRIVATE KEY") || !strings.Contains(l.String(), "another account") {
		t.Errorf("account key = %q, log %s, want another key and a warning", m.files[accountKey], l.String())
	}
}

// TestInvalidAuthorityResponseIsRefused checks the log for endless and invalid responses, for an
// authority that is down, and for one without HTTPS. The authority gets at most five requests.
func TestInvalidAuthorityResponseIsRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		handler http.HandlerFunc
		plain   bool
		logged  string
	}{
		"an endless directory": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"newNonce":"`)
			for err := error(nil); err == nil; {
				_, err = io.WriteString(w, strings.Repeat("a", 1<<16))
			}
		}, false, "unexpected EOF"},
		"an authority that is down": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}, false, "503"},
		"a response that is not JSON": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<html>")
		}, false, "invalid character"},
		"plain HTTP": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "{}")
		}, true, "none of HTTPS"},
	} {
		directory, transport, n := startAuthority(t, tt.handler)
		if tt.plain {
			directory = strings.Replace(directory, "https:", "http:", 1)
		}
		var l logLines
		a := OpenAuthority(AuthorityOptions{
			Directory: directory, Transport: transport, Folder: &memoryFolder{},
			Names: fakeNames{"api.example.com": true}, Log: l.log(),
		})
		if cert, err := a.Certificate(t.Context(), "api.example.com"); cert != nil || err == nil {
			t.Errorf("%s: Certificate() = %v, %v, want nil and an error", name, cert, err)
		}
		if !strings.Contains(l.String(), tt.logged) || n.Load() > 5 {
			t.Errorf("%s: log after %d requests = %s, want %q after at most 5", name, n.Load(), l.String(), tt.logged)
		}
	}
}

// TestCertificateIsObtainedByHTTP01 checks that a certificate is obtained without
// connections to port 443, and that it is read from the folder after a restart.
func TestCertificateIsObtainedByHTTP01(t *testing.T) {
	t.Parallel()
	pebble := pebbletest.Start(t)
	m := &memoryFolder{}
	o := AuthorityOptions{
		Directory: pebble.Directory, Transport: pebble.Client.Transport, Folder: m,
		Names: fakeNames{"api.example.com": true}, Log: new(logLines).log(),
	}
	a := OpenAuthority(o)
	var challengeHeader atomic.Pointer[http.Header]
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Host = strings.ToUpper(r.Host)
		if a.Challenges(http.NotFoundHandler()).ServeHTTP(w, r); strings.HasPrefix(r.URL.Path, challengePath) {
			h := w.Header()
			challengeHeader.Store(&h)
		}
	}))
	t.Cleanup(plain.Close)
	unused := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(unused.Close)
	pebble.ValidateAt(t, portOf(t, plain), portOf(t, unused))
	cert, err := a.Certificate(t.Context(), "api.example.com")
	if err != nil || cert.Leaf.VerifyHostname("api.example.com") != nil {
		t.Fatalf("Certificate(api.example.com) = %v, %v, want one for this name", cert, err)
	}
	if h := challengeHeader.Load(); h == nil || h.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("header of the challenge's response = %v, want the type application/octet-stream", h)
	}
	if len(m.files) != 2 || m.files[accountKey] == "" || m.files["api.example.com"] == "" {
		t.Errorf("files = %v, want the account key and the certificate", slices.Sorted(maps.Keys(m.files)))
	}
	o.Directory = "https://127.0.0.1:9/away"
	restored, err := OpenAuthority(o).Certificate(t.Context(), "api.example.com")
	if err != nil || restored.Leaf.SerialNumber.Cmp(cert.Leaf.SerialNumber) != 0 {
		t.Errorf("Certificate() after a restart = %v, %v, want the stored one", restored, err)
	}
}

func portOf(t *testing.T, s *httptest.Server) int {
	t.Helper()
	addr, ok := s.Listener.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("address of the server = %v, want a TCP address", s.Listener.Addr())
	}
	return addr.Port
}
