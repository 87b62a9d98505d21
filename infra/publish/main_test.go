package main

import (
	"encoding/base64"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/gatewright/gatewright/functions"
)

const endpoint = "https://000000000000.dkr.ecr.eu-west-1.amazonaws.com"

func authorization(endpoint string) string {
	return base64.StdEncoding.EncodeToString([]byte("AWS:a-secret")) + "\t" + endpoint + "\n"
}

// instead sends what is for any host to one of the test's.
type instead struct{ to *url.URL }

func (i instead) RoundTrip(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.Host, out.URL.Scheme, out.URL.Host = r.URL.Host, i.to.Scheme, i.to.Host
	answer, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	answer.Request = r // which its addresses are relative to
	return answer, nil
}

// TestServicesAreUploadedWhereTheBootstrapSays, as the user of the token, and once.
func TestServicesAreUploadedWhereTheBootstrapSays(t *testing.T) {
	memory := registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)))
	uploads := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "AWS" || password != "a-secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		const at = "/v2/cdk-hnb659fds-container-assets-000000000000-eu-west-1/"
		if r.URL.Path != "/v2/" && !strings.HasPrefix(r.URL.Path, at) {
			t.Errorf("%s %s is not at %s", r.Method, r.URL, at)
		}
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/") {
			uploads++
		}
		memory.ServeHTTP(w, r)
	}))
	defer server.Close()
	to, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	assets := t.TempDir()
	for _, s := range functions.Services() {
		if err := os.MkdirAll(filepath.Join(assets, s.Name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(assets, s.Name, "container"), []byte(s.Name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var told strings.Builder
	for range 2 {
		if err := publish(t.Context(), strings.NewReader(authorization(endpoint)), assets, "arm64", instead{to}, &told); err != nil {
			t.Fatal(err)
		}
	}
	deployed := functions.Services()
	if want := len(deployed); uploads != want || want == 0 {
		t.Errorf("%d uploads of %d services", uploads, want)
	}
	want := "The image of relay is uploaded.\nThe image of gateway is uploaded.\nThe image of relay is there already.\nThe image of gateway is there already.\n"
	if told.String() != want {
		t.Errorf("it tells %q, want %q", told.String(), want)
	}
}

// TestWhatIsNoTokenIsToldWithoutIt: it is in a terminal, and may be a secret.
func TestWhatIsNoTokenIsToldWithoutIt(t *testing.T) {
	for name, in := range map[string]string{
		"nothing":            "",
		"no endpoint":        "a-secret",
		"no base64":          "a-secret " + endpoint,
		"no user":            base64.StdEncoding.EncodeToString([]byte("a-secret")) + " " + endpoint,
		"no address":         authorization("a-secret"),
		"plain HTTP":         authorization(strings.Replace(endpoint, "https", "http", 1)),
		"a stranger's":       authorization("https://registry.example.com"),
		"a stranger's below": authorization(endpoint + ".example.com"),
	} {
		t.Run(name, func(t *testing.T) {
			err := publish(t.Context(), strings.NewReader(in), t.TempDir(), "arm64", nil, io.Discard)
			if err == nil || !strings.Contains(err.Error(), "aws ecr get-authorization-token") || strings.Contains(err.Error(), "a-secret") {
				t.Errorf("error %v", err)
			}
		})
	}
}
