package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/console"
	served "github.com/gatewright/gatewright/functions/console"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/management/api"
)

// testRoutes returns the routes of a small console.
func testRoutes(p installation.Parts) []api.Route {
	return served.Routes(p, console.NewSite(map[string][]byte{
		"index.html": []byte(`<script src="{{assets}}/main-1A.js">`), "index.html.br": []byte("\x1bpage"),
		"main-1A.js": []byte("script"), "main-1A.js.br": []byte("\x1b\xffscript"), "icon-2B.svg": []byte("<svg/>"),
		"licenses-3C.txt": []byte("MIT"),
	}))
}

func TestPageLinksAreRelativeToAddress(t *testing.T) {
	fx := functionstest.New(t, testRoutes)
	for address, want := range map[string]string{
		"/console":  `src="console/main-1A.js"`,
		"/console/": `src="./main-1A.js"`,
	} {
		resp := fx.Call("", http.MethodGet, address, "").Want(200).WantHeader("Cache-Control", "no-cache").
			WantHeader("Content-Type", "text/html; charset=utf-8")
		if !strings.Contains(resp.Body, want) {
			t.Errorf("GET %s: body = %s, want %s in it", address, resp.Body, want)
		}
		fx.Call("", http.MethodGet, address, "", "If-None-Match", resp.Header.Get("ETag")).Want(304)
		fx.Call("", http.MethodGet, address, "", "If-None-Match", `"another"`).Want(200)
	}
}

func TestFilesAreImmutableAndCompressed(t *testing.T) {
	fx := functionstest.New(t, testRoutes)
	const plain, compressed = "script", "\x1b\xffscript"
	for acceptEncoding, want := range map[string]string{
		"br": compressed, "gzip, br": compressed, "gzip, deflate, br;q=1.0": compressed,
		"gzip, deflate, br, zstd": compressed, "br;q=0.001": compressed,
		"": plain, "gzip": plain, "*": plain, "br;q=0": plain, "br;q=0.000": plain, "*;q=0": plain, "br;q=0, *": plain,
		"*, br;q=0": plain, "identity": plain,
		"br;q=x": plain, "brotli": plain, "gzip;br": plain,
	} {
		resp := fx.Call("", http.MethodGet, "/console/main-1A.js", "", "Accept-Encoding", acceptEncoding).Want(200).
			WantHeader("Cache-Control", "public, max-age=31536000, immutable").WantHeader("Vary",
			"Accept-Encoding").WantHeader("Content-Type", "text/javascript; charset=utf-8")
		encoding := map[string]string{plain: "", compressed: "br"}[want]
		if got, ok := resp.Header["Content-Encoding"]; resp.Body != want || resp.Header.Get("Content-Encoding") != encoding ||
			ok != (encoding != "") {
			t.Errorf("GET with Accept-Encoding %q: body = %q with Content-Encoding %q, want %q with %q",
				acceptEncoding, resp.Body, got, want, encoding)
		}
	}
	fx.Call("", http.MethodGet, "/console/icon-2B.svg", "", "Accept-Encoding", "br").
		Want(200, "<svg/>").WantHeader("Content-Type", "image/svg+xml").WantHeader("Content-Encoding", "")
	fx.Call("", http.MethodGet, "/console/licenses-3C.txt", "").Want(200, "MIT").WantHeader("Content-Type",
		"text/plain; charset=utf-8")
}

func TestOtherPathsAreNotFound(t *testing.T) {
	fx := functionstest.New(t, testRoutes)
	for _, name := range []string{
		"index.html", "main-1A.js.br", "index.html.br", "main-2C.js", "dist%2Fmain-1A.js",
		"..%2Fconsole.go", "%2e%2e%2fconsole.go", ".", "a%5Cb",
	} {
		fx.Call("", http.MethodGet, "/console/"+name, "").Want(404)
	}
}

func TestSecurityHeadersAreStrict(t *testing.T) {
	for file, fx := range map[string]*functionstest.Fixture{
		"main-1A.js":      functionstest.New(t, testRoutes),
		embeddedScript(t): functionstest.New(t, served.Bind),
	} {
		for _, address := range []string{"/console", "/console/" + file} {
			resp := fx.Call("", http.MethodGet, address, "").Want(200).
				WantHeader("X-Content-Type-Options", "nosniff").WantHeader("Referrer-Policy", "no-referrer").
				WantHeader("X-Frame-Options", "DENY").
				WantHeader("Cross-Origin-Opener-Policy", "same-origin").WantHeader("Cross-Origin-Resource-Policy", "same-origin")
			policy := resp.Header.Get("Content-Security-Policy")
			for _, directive := range []string{
				"default-src 'none';", "script-src 'self';", "style-src 'self';", "connect-src 'self';", "base-uri 'none';",
				"form-action 'none';",
				"frame-ancestors 'none';", "require-trusted-types-for 'script';", "trusted-types 'none'",
			} {
				if !strings.Contains(policy, directive) {
					t.Errorf("%s: Content-Security-Policy = %q, want %s in it", address, policy, directive)
				}
			}
			if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") || strings.Contains(policy, "http") {
				t.Errorf("%s: Content-Security-Policy = %q, want neither unsafe nor * nor http in it", address, policy)
			}
		}
	}
}

// embeddedScript returns the file name of the main script of the console that is embedded in the binary.
func embeddedScript(t *testing.T) string {
	t.Helper()
	for _, name := range console.Embedded().Names() {
		if strings.HasPrefix(name, "main-") {
			return name
		}
	}
	t.Fatal("the embedded console has no file main-…, want one")
	return ""
}
