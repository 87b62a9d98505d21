package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/console"
	served "github.com/gatewright/gatewright/functions/console"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/installation"
)

// built returns the routes of a small console.
func built(p installation.Parts) []api.Route {
	return served.Serving(p, console.Of(map[string][]byte{
		"index.html": []byte(`<script src="{{assets}}/main-1A.js">`), "index.html.br": []byte("\x1bpage"),
		"main-1A.js": []byte("script"), "main-1A.js.br": []byte("\x1b\xffscript"), "icon-2B.svg": []byte("<svg/>"), "licenses-3C.txt": []byte("MIT"),
	}))
}

func TestPageRefersToItsFilesFromWhereverItIsAsked(t *testing.T) {
	w := functionstest.New(t, built)
	for address, want := range map[string]string{"/console": `src="console/main-1A.js"`, "/console/": `src="./main-1A.js"`} {
		a := w.Call("", http.MethodGet, address, "").Want(200).WantHeader("Cache-Control", "no-cache").WantHeader("Content-Type", "text/html; charset=utf-8")
		if !strings.Contains(a.Body, want) {
			t.Errorf("%s: %s, want %s", address, a.Body, want)
		}
		w.Call("", http.MethodGet, address, "", "If-None-Match", a.Header.Get("ETag")).Want(304)
		w.Call("", http.MethodGet, address, "", "If-None-Match", `"another"`).Want(200)
	}
}

func TestFilesAreKeptForGoodAndCompressedForWhoTakesIt(t *testing.T) {
	w := functionstest.New(t, built)
	const plain, small = "script", "\x1b\xffscript"
	for field, want := range map[string]string{
		"br": small, "gzip, br": small, "gzip, deflate, br;q=1.0": small, "gzip, deflate, br, zstd": small, "br;q=0.001": small,
		"": plain, "gzip": plain, "*": plain, "br;q=0": plain, "br;q=0.000": plain, "*;q=0": plain, "br;q=0, *": plain, "*, br;q=0": plain, "identity": plain,
		"br;q=x": plain, "brotli": plain, "gzip;br": plain,
	} {
		a := w.Call("", http.MethodGet, "/console/main-1A.js", "", "Accept-Encoding", field).Want(200).
			WantHeader("Cache-Control", "public, max-age=31536000, immutable").WantHeader("Vary", "Accept-Encoding").WantHeader("Content-Type", "text/javascript; charset=utf-8")
		coding := map[string]string{plain: "", small: "br"}[want]
		if got, ok := a.Header["Content-Encoding"]; a.Body != want || a.Header.Get("Content-Encoding") != coding || ok != (coding != "") {
			t.Errorf("%q: %q as %q, want %q", field, a.Body, got, want)
		}
	}
	w.Call("", http.MethodGet, "/console/icon-2B.svg", "", "Accept-Encoding", "br").Want(200, "<svg/>").WantHeader("Content-Type", "image/svg+xml").WantHeader("Content-Encoding", "")
	w.Call("", http.MethodGet, "/console/licenses-3C.txt", "").Want(200, "MIT").WantHeader("Content-Type", "text/plain; charset=utf-8")
}

func TestNothingElseIsServed(t *testing.T) {
	w := functionstest.New(t, built)
	for _, name := range []string{"index.html", "main-1A.js.br", "index.html.br", "main-2C.js", "dist%2Fmain-1A.js", "..%2Fconsole.go", "%2e%2e%2fconsole.go", ".", "a%5Cb"} {
		w.Call("", http.MethodGet, "/console/"+name, "").Want(404)
	}
}

func TestPageMayDoNothingThatItNeedsNot(t *testing.T) {
	for file, w := range map[string]*functionstest.World{"main-1A.js": functionstest.New(t, built), embeddedFile(t): functionstest.New(t, served.Bind)} {
		for _, address := range []string{"/console", "/console/" + file} {
			a := w.Call("", http.MethodGet, address, "").Want(200).
				WantHeader("X-Content-Type-Options", "nosniff").WantHeader("Referrer-Policy", "no-referrer").WantHeader("X-Frame-Options", "DENY").
				WantHeader("Cross-Origin-Opener-Policy", "same-origin").WantHeader("Cross-Origin-Resource-Policy", "same-origin")
			policy := a.Header.Get("Content-Security-Policy")
			for _, part := range []string{
				"default-src 'none';", "script-src 'self';", "style-src 'self';", "connect-src 'self';", "base-uri 'none';", "form-action 'none';",
				"frame-ancestors 'none';", "require-trusted-types-for 'script';", "trusted-types 'none'",
			} {
				if !strings.Contains(policy, part) {
					t.Errorf("%s: the policy %q lacks %s", address, policy, part)
				}
			}
			if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") || strings.Contains(policy, "http") {
				t.Errorf("%s: the policy is %q", address, policy)
			}
		}
	}
}

// embeddedFile returns the name of a file of the embedded console.
func embeddedFile(t *testing.T) string {
	t.Helper()
	for _, name := range console.Embedded().Names() {
		if strings.HasPrefix(name, "main-") {
			return name
		}
	}
	t.Fatal("the embedded console has no file main-…")
	return ""
}
