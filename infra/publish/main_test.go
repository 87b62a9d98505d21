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

// authorization returns a token and the address of its registry, as `aws ecr get-authorization-token` prints them.
func authorization(endpoint string) string {
	return base64.StdEncoding.EncodeToString([]byte("AWS:a-secret")) + "\t" + endpoint + "\n"
}

// redirectTransport sends requests for any host to a test server.
type redirectTransport struct{ target *url.URL }

func (t redirectTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.Host, out.URL.Scheme, out.URL.Host = r.URL.Host, t.target.Scheme, t.target.Host
	resp, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	resp.Request = r // relative addresses in the response refer to the original request
	return resp, nil
}

// TestServicesAreUploadedToTheBootstrapRepository checks the repository and the credentials of the upload, and that
// each image is uploaded only once.
func TestServicesAreUploadedToTheBootstrapRepository(t *testing.T) {
	memory := registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)))
	uploads := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "AWS" || password != "a-secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		const prefix = "/v2/cdk-hnb659fds-container-assets-000000000000-eu-west-1/"
		if r.URL.Path != "/v2/" && !strings.HasPrefix(r.URL.Path, prefix) {
			t.Errorf("request %s %s, want a path below %s", r.Method, r.URL, prefix)
		}
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/") {
			uploads++
		}
		memory.ServeHTTP(w, r)
	}))
	defer server.Close()
	target, err := url.Parse(server.URL)
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
	var progress strings.Builder
	for range 2 {
		if err := publish(t.Context(), strings.NewReader(authorization(endpoint)), assets, "arm64", redirectTransport{target},
			&progress); err != nil {
			t.Fatal(err)
		}
	}
	services := functions.Services()
	if want := len(services); uploads != want || want == 0 {
		t.Errorf("two calls of publish() upload %d images, want %d: each service once", uploads, want)
	}
	want := "The image of relay is uploaded.\nThe image of gateway is uploaded.\nThe image of relay is there " +
		"already.\nThe image of gateway is there already.\n"
	if progress.String() != want {
		t.Errorf("output = %q, want %q", progress.String(), want)
	}
}

// TestInvalidTokenErrorHidesTheInput checks that the error does not contain the input, which may be a secret and
// appears in a terminal.
func TestInvalidTokenErrorHidesTheInput(t *testing.T) {
	for name, in := range map[string]string{
		"empty token":                "",
		"no endpoint":                "a-secret",
		"no base64":                  "a-secret " + endpoint,
		"no user":                    base64.StdEncoding.EncodeToString([]byte("a-secret")) + " " + endpoint,
		"no address":                 authorization("a-secret"),
		"plain HTTP":                 authorization(strings.Replace(endpoint, "https", "http", 1)),
		"registry of another domain": authorization("https://registry.example.com"),
		"registry of a subdomain of another domain": authorization(endpoint + ".example.com"),
	} {
		t.Run(name, func(t *testing.T) {
			err := publish(t.Context(), strings.NewReader(in), t.TempDir(), "arm64", nil, io.Discard)
			if err == nil || !strings.Contains(err.Error(), "aws ecr get-authorization-token") ||
				strings.Contains(err.Error(), "a-secret") {
				t.Errorf("publish() error = %v, want the command that prints a token and no part of the input", err)
			}
		})
	}
}
