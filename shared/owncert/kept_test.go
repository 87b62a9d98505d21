package owncert

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

	"github.com/gatewright/gatewright/shared/issuance/pebbletest"
)

// memory is a Folder.
type memory struct {
	mu    sync.Mutex
	files map[string]string
	full  error
}

// Read implements Folder.
func (m *memory) Read(name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if content, ok := m.files[name]; ok {
		return []byte(content), nil
	}
	return nil, fmt.Errorf("read %s: %w", name, fs.ErrNotExist)
}

// Write implements Folder.
func (m *memory) Write(name string, content []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.full != nil {
		return m.full
	}
	if m.files == nil {
		m.files = map[string]string{}
	}
	m.files[name] = string(content)
	return nil
}

// TestAnswersToChallengesAreNoFiles: their names are whoever's who asks for them.
func TestAnswersToChallengesAreNoFiles(t *testing.T) {
	t.Parallel()
	m := &memory{}
	k := kept{m, new(lines).log()}
	for _, name := range []string{"token+http-01", "api.example.com+token"} {
		if err := k.Put(t.Context(), name, []byte("answer")); err != nil || len(m.files) != 0 {
			t.Errorf("%s is kept in %v, %v", name, m.files, err)
		}
		m.files = map[string]string{name: "another's"}
		if content, err := k.Get(t.Context(), name); !errors.Is(err, autocert.ErrCacheMiss) {
			t.Errorf("%s is read: %s, %v", name, content, err)
		}
		m.files = nil
	}
	for _, name := range []string{"api.example.com", accountKey} {
		if err := k.Put(t.Context(), name, []byte("-----BEGIN X-----\n-----END X-----\n")); err != nil {
			t.Fatal(err)
		}
		if content, err := k.Get(t.Context(), name); err != nil || m.files[name] != string(content) {
			t.Errorf("%s is kept as %q, %v", name, content, err)
		}
	}
}

// TestWhatCannotBeKeptIsTold: authorities give the same certificate a few times a week, and then no more.
func TestWhatCannotBeKeptIsTold(t *testing.T) {
	t.Parallel()
	var l lines
	full := errors.New("no space left on device")
	if err := (kept{&memory{full: full}, l.log()}).Put(t.Context(), "api.example.com", []byte("SECRET")); !errors.Is(err, full) {
		t.Errorf("it answers %v", err)
	}
	if got := l.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "no space left") || !strings.Contains(got, "file=api.example.com") || strings.Contains(got, "SECRET") {
		t.Errorf("it prints %s", got)
	}
}

// TestEmptyAccountKeyIsMadeAnew: a power cut may leave one, and no certificate would ever come again.
func TestEmptyAccountKeyIsMadeAnew(t *testing.T) {
	t.Parallel()
	directory, transport, _ := asked(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	var l lines
	m := &memory{files: map[string]string{accountKey: ""}}
	a := OpenAuthority(AuthorityOptions{Directory: directory, Transport: transport, Folder: m, Names: fewNames{"api.example.com": true}, Log: l.log()})
	_, _ = a.Certificate(t.Context(), "api.example.com")
	if !strings.Contains(m.files[accountKey], "PRIVATE KEY") || !strings.Contains(l.String(), "another account") {
		t.Errorf("the key is %q: %s", m.files[accountKey], l.String())
	}
}

// TestAuthorityThatAnswersWithoutEndIsLeft, as one that is down is after a few tries.
func TestAuthorityThatAnswersWithoutEndIsLeft(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		plain  bool
		told   string
	}{
		"without end": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"newNonce":"`)
			for err := error(nil); err == nil; {
				_, err = io.WriteString(w, strings.Repeat("a", 1<<16))
			}
		}, false, "unexpected EOF"},
		"down":          {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, false, "503"},
		"rubbish":       {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, false, "invalid character"},
		"by plain HTTP": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") }, true, "none of HTTPS"},
	} {
		directory, transport, n := asked(t, tt.answer)
		if tt.plain {
			directory = strings.Replace(directory, "https:", "http:", 1)
		}
		var l lines
		a := OpenAuthority(AuthorityOptions{Directory: directory, Transport: transport, Folder: &memory{}, Names: fewNames{"api.example.com": true}, Log: l.log()})
		if its, err := a.Certificate(t.Context(), "api.example.com"); its != nil || err == nil {
			t.Errorf("%s: it gives %v, %v", name, its, err)
		}
		if !strings.Contains(l.String(), tt.told) || n.Load() > 5 {
			t.Errorf("%s: after %d requests it prints %s", name, n.Load(), l.String())
		}
	}
}

// TestNameIsProvenByPlainHTTP where connections to port 443 do not arrive, and its certificate is there after another start.
func TestNameIsProvenByPlainHTTP(t *testing.T) {
	t.Parallel()
	pebble := pebbletest.Start(t)
	m := &memory{}
	o := AuthorityOptions{Directory: pebble.Directory, Transport: pebble.Client.Transport, Folder: m, Names: fewNames{"api.example.com": true}, Log: new(lines).log()}
	a := OpenAuthority(o)
	var answers atomic.Pointer[http.Header]
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Host = strings.ToUpper(r.Host)
		if a.Challenges(http.NotFoundHandler()).ServeHTTP(w, r); strings.HasPrefix(r.URL.Path, challengePath) {
			h := w.Header()
			answers.Store(&h)
		}
	}))
	t.Cleanup(plain.Close)
	away := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(away.Close)
	pebble.LookAt(t, portOf(t, plain), portOf(t, away))
	its, err := a.Certificate(t.Context(), "api.example.com")
	if err != nil || its.Leaf.VerifyHostname("api.example.com") != nil {
		t.Fatalf("it gives %v, %v", its, err)
	}
	if h := answers.Load(); h == nil || h.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("the challenge is answered with %v", h)
	}
	if len(m.files) != 2 || m.files[accountKey] == "" || m.files["api.example.com"] == "" {
		t.Errorf("it keeps %v", slices.Sorted(maps.Keys(m.files)))
	}
	o.Directory = "https://127.0.0.1:9/away"
	again, err := OpenAuthority(o).Certificate(t.Context(), "api.example.com")
	if err != nil || again.Leaf.SerialNumber.Cmp(its.Leaf.SerialNumber) != 0 {
		t.Errorf("after another start it gives %v, %v", again, err)
	}
}

func portOf(t *testing.T, s *httptest.Server) int {
	t.Helper()
	at, ok := s.Listener.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatal("it listens at no port")
	}
	return at.Port
}
