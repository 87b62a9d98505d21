package paths

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestCanonical(t *testing.T) {
	for raw, want := range map[string]string{
		"/":                              "/",
		"/a/b":                           "/a/b",
		"/a/":                            "/a/",
		"/%61dmin":                       "/admin",
		"/%41%7a%30%2D%2e%5f%7E":         "/Az0-._~",
		"/caf%c3%a9":                     "/caf%C3%A9",
		"/café":                          "/caf%C3%A9",
		"/\xe9":                          "/%E9",
		"/%C3%A9":                        "/%C3%A9",
		"/a\"b%2fc":                      "/a%22b%2Fc",
		"/<>^`{|}[]#? ":                  "/%3C%3E%5E%60%7B%7C%7D%5B%5D%23%3F%20",
		`/a\b`:                           "/a%5Cb",
		"/!$&'()*+,;=:@":                 "/!$&'()*+,;=:@",
		"/%21%24%26%27%28%29%2a%2B%2C":   "/%21%24%26%27%28%29%2A%2B%2C",
		"/%252e%252E/x":                  "/%252e%252E/x",
		"/%25%32%65":                     "/%252e",
		"//admin":                        "/admin",
		"/a//b///":                       "/a/b/",
		"//":                             "/",
		"/a/./b":                         "/a/b",
		"/a/../b":                        "/b",
		"/../../b":                       "/b",
		"/a/b/..":                        "/a/",
		"/a/.":                           "/a/",
		"/..":                            "/",
		"/a/%2e%2E/b":                    "/b",
		"/a/.%2e/b":                      "/b",
		"/%2e":                           "/",
		"/a//../b":                       "/b",
		"/a/...":                         "/a/...",
		"/a/..b/.c":                      "/a/..b/.c",
		"/.well-known/x":                 "/.well-known/x",
		"/a%2Fb/../../c":                 "!", // refused
		"/a%2Fb/./c":                     "/a%2Fb/c",
		"/x/../a%2Fb":                    "/a%2Fb",
		"/feature%2Fx":                   "/feature%2Fx",
		"/a;v=1/b;":                      "/a;v=1/b;",
		"/..a;b":                         "/..a;b",
		"/a%2F..b":                       "/a%2F..b",
		"/%E0%A0%80/%F0%9F%98%80":        "/%E0%A0%80/%F0%9F%98%80",
		"/%F8/%FC/%FE/%FF%FE/%F8%C0":     "/%F8/%FC/%FE/%FF%FE/%F8%C0",
		"/%C3%80/%C2%AF/%E9%80/%C0":      "/%C3%80/%C2%AF/%E9%80/%C0",
		"/%C0x%AE/%C1%C1/%E0%A0/%F0%90a": "/%C0x%AE/%C1%C1/%E0%A0/%F0%90a",
	} {
		got, err := Canonical(raw)
		if want == "!" {
			if err == nil {
				t.Errorf("Canonical(%q) = %q, want an error", raw, got)
			}
			continue
		}
		if err != nil || got != want {
			t.Errorf("Canonical(%q) = %q, %v, want %q and no error", raw, got, err, want)
			continue
		}
		if second, err := Canonical(got); err != nil || second != got {
			t.Errorf("Canonical(%q), the canonical form of %q, = %q, %v, want no change", got, raw, second, err)
		}
		strict, err := CanonicalStrict(raw)
		hasDots := slices.ContainsFunc(strings.Split(strings.NewReplacer("%2e", ".", "%2E", ".").Replace(raw), "/"),
			func(s string) bool { return s == "." || s == ".." })
		if hasDots != errors.Is(err, ErrDotSegment) || !hasDots && strict != want {
			t.Errorf("CanonicalStrict(%q) = %q, %v, want %q, or an error if it has dots (%v)", raw, strict, err, want, hasDots)
		}
	}
}

func TestAmbiguousPathsAreRefused(t *testing.T) {
	for raw, want := range map[string]error{
		"":                       ErrRelative,
		"*":                      ErrRelative,
		"a/b":                    ErrRelative,
		"/%":                     ErrEscape,
		"/%4":                    ErrEscape,
		"/%4g":                   ErrEscape,
		"/%g4":                   ErrEscape,
		"/%%41":                  ErrEscape,
		"/%u002e":                ErrEscape,
		"/a%00":                  ErrControl,
		"/a%0d%0A":               ErrControl,
		"/a%1F":                  ErrControl,
		"/a%7f":                  ErrControl,
		"/a\x00":                 ErrControl,
		"/a\tb":                  ErrControl,
		"/v1/..%2Fadmin":         ErrAmbiguousDots,
		"/v1/..%2fadmin":         ErrAmbiguousDots,
		"/v1/%2e%2E%2Fa":         ErrAmbiguousDots,
		"/v1/.%2Fadmin":          ErrAmbiguousDots,
		"/v1/x%2F..":             ErrAmbiguousDots,
		"/v1/x%2F../admin":       ErrAmbiguousDots,
		"/v1/x%2F.%2Fadmin":      ErrAmbiguousDots,
		"/v1/%2F..":              ErrAmbiguousDots,
		"/v1/..%5Cadmin":         ErrAmbiguousDots,
		`/v1/..\admin`:           ErrAmbiguousDots,
		`/v1/a\..\b`:             ErrAmbiguousDots,
		"/v1/..%2F%5Cx":          ErrAmbiguousDots,
		"/v1/..;/admin":          ErrAmbiguousDots,
		"/v1/..;a":               ErrAmbiguousDots,
		"/v1/.;":                 ErrAmbiguousDots,
		"/v1/..%3Ba":             ErrAmbiguousDots,
		"/v1/..%3ba;b":           ErrAmbiguousDots,
		"/v1/%2e%2e;/x":          ErrAmbiguousDots,
		"/v1/x%2F..;a":           ErrAmbiguousDots,
		"/v1/x;a%2F..":           ErrAmbiguousDots,
		"/a%2Fb/..":              ErrAmbiguousDots,
		"/a%5Cb/../c":            ErrAmbiguousDots,
		"/a/;/../c":              ErrAmbiguousDots,
		"/a/%3Bx/../c":           ErrAmbiguousDots,
		"/a%2Fb/c/../../d":       ErrAmbiguousDots,
		"/%c0%ae%c0%ae/x":        ErrOverlong,
		"/\xc0\xaf":              ErrOverlong,
		"/%C1%81":                ErrOverlong,
		"/%C0%9c":                ErrOverlong,
		"/%C0%BC":                ErrOverlong,
		"/%E0%80%AE":             ErrOverlong,
		"/%E0%9F%AE":             ErrOverlong,
		"/%F0%80%80%AE":          ErrOverlong,
		"/%F8%80%80%80%AE":       ErrOverlong,
		"/%f8%87%80%80%80":       ErrOverlong,
		"/%FC%80%80%80%80%AE":    ErrOverlong,
		"/%FE%80%80%80%80%80%AE": ErrOverlong,
	} {
		if got, err := Canonical(raw); !errors.Is(err, want) {
			t.Errorf("Canonical(%q) = %q, %v, want %v", raw, got, err, want)
		}
		if got, err := CanonicalStrict(raw); err == nil {
			t.Errorf("CanonicalStrict(%q) = %q, want an error", raw, got)
		}
	}
}

func TestCanonicalPathAllocatesNothing(t *testing.T) {
	for _, path := range []string{
		"/", "/v1/todos/7", "/repos/octo/hello/compare/main...dev", "/.well-known/x",
		"/feature%2Fx/a;b/caf%C3%A9",
	} {
		if n := testing.AllocsPerRun(100, func() { _, _ = Canonical(path) }); n != 0 {
			t.Errorf("Canonical(%s) allocations = %v, want 0", path, n)
		}
		if n := testing.AllocsPerRun(100, func() { _ = EscapeInvalid(path) }); n != 0 {
			t.Errorf("EscapeInvalid(%s) allocations = %v, want 0", path, n)
		}
	}
	if n := testing.AllocsPerRun(100, func() { _ = Interpretations("/caf%C3%A9/x%20y") }); n != 0 {
		t.Errorf("Interpretations(path with one interpretation) allocations = %v, want 0", n)
	}
}

func TestEscapeInvalidKeepsEscapes(t *testing.T) {
	for raw, want := range map[string]string{
		"/a//b/../%2e/%c3%A9":  "/a//b/../%2e/%c3%A9",
		"/a\"b c%":             "/a%22b%20c%25",
		"/é[1]{2}":             "/%C3%A9[1]%7B2%7D",
		"/%zz%4":               "/%25zz%254",
		"*":                    "*",
		"":                     "",
		"/a\\b?c#d\x00%41;v=1": "/a%5Cb%3Fc%23d%00%41;v=1",
	} {
		got := EscapeInvalid(raw)
		if got != want {
			t.Errorf("EscapeInvalid(%q) = %q, want %q", raw, got, want)
		}
		// net/url would escape a path again if it is not a valid encoding.
		decoded, err := url.PathUnescape(got)
		if u := (&url.URL{Path: decoded, RawPath: got}); err != nil || u.EscapedPath() != got && got != "" {
			t.Errorf("%q: EscapedPath() in net/url = %q, %v, want %q", raw, u.EscapedPath(), err, got)
		}
	}
}

func TestInterpretations(t *testing.T) {
	for path, want := range map[string][]string{
		"/a/b":                nil,
		"/caf%C3%A9%20%25%22": nil,
		"/%252F":              nil,
		"/a%2Fb":              {"/a/b"},
		"/%2Fadmin":           {"/admin"},
		"/admin%2F":           {"/admin/", "/admin"},
		"/admin%5C":           {"/admin/", "/admin"},
		"/admin%2F;a":         {"/admin/;a", "/admin/", "/admin"},
		"/a%2Fb/":             {"/a/b/"},
		"/%2F":                {"/"},
		"/a%5Cb":              {"/a/b"},
		"/a%2Fb%5Cc":          {"/a/b%5Cc", "/a/b/c"},
		"/%24bulk":            {"/$bulk"},
		"/a%3Ab%40":           {"/a:b@"},
		"/a;v=1/b":            {"/a/b"},
		"/a%3Bv/b":            {"/a;v/b", "/a/b"},
		"/a;x%2Fb/c":          {"/a;x/b/c", "/a/c", "/a/b/c"},
		"/a/;v":               {"/a/", "/a"},
		"/a/;v/b":             {"/a/b"},
	} {
		if got := Interpretations(path); !slices.Equal(got, want) {
			t.Errorf("Interpretations(%s) = %q, want %q", path, got, want)
		}
	}
}

func TestTemplate(t *testing.T) {
	for text, want := range map[string]string{
		"/":                      "/",
		"/%61dmin/{id}":          "/admin/{id}",
		"/~x/caf%c3%a9/é":        "/~x/caf%C3%A9/%C3%A9",
		"/a//b":                  "/a/b",
		"/a b":                   "/a%20b",
		"/{some name}%2f{é}/":    "/{some name}%2F{é}/",
		"/%7b{base}...{head}":    "/%7B{base}...{head}",
		"/{a};v={b}":             "/{a};v={b}",
		"/.{a}/{b}.":             "/.{a}/{b}.",
		"/{":                     "/{",
		"/}{":                    "/}{",
		"/a}%41":                 "/a}A",
		"/{{a}%41}":              "/{{a}A}",
		"/{a//b}":                "/{a/b}", // the code that reads names refuses this name
		"/$bulk/%24bulk/a:b/%2A": "/$bulk/%24bulk/a:b/%2A",
	} {
		if got, err := Template(text); err != nil || got != want {
			t.Errorf("Template(%s) = %s, %v, want %s and no error", text, got, err, want)
		}
	}
	for text, want := range map[string]error{
		"/a/./b":      ErrDotSegment,
		"/%2e%2E":     ErrDotSegment,
		"/{a}/..":     ErrDotSegment,
		"/..%2F{a}":   ErrAmbiguousDots,
		"/{a}%5C..":   ErrAmbiguousDots,
		"/..;{a}":     ErrAmbiguousDots,
		"/{a}/%00":    ErrControl,
		"/{a}%C0%AE":  ErrOverlong,
		"/100%":       ErrEscape,
		"/{a}/%2}x{b": ErrEscape,
	} {
		if got, err := Template(text); !errors.Is(err, want) {
			t.Errorf("Template(%s) = %s, %v, want %v", text, got, err, want)
		}
	}
}

func TestPattern(t *testing.T) {
	for text, want := range map[string]string{
		"/":                       "/",
		"/admin/*":                "/admin/*",
		"/%61dmin/:id":            `/\admin/:id`,
		"/:id%61":                 `/:id\a`,
		"/:id\\a":                 `/:id\a`,
		"/caf%c3%a9/é":            "/caf%C3%A9/%C3%A9",
		"/a//b/\\/c":              "/a/b/c",
		"/:a/{/b}?":               "/:a/{/b}?",
		"/a|b\\{\\\\":             "/a%7Cb%7B%5C",
		"/%24%2a%3A%28/%2f":       `/\$\*\:\(/%2F`,
		"/:a(\\d+|[^/]%C3)+/:b":   "/:a(\\d+|[^/]%C3)+/:b",
		"/:a(x(?:%2F\\)y)z)/%7Eb": "/:a(x(?:%2F\\)y)z)/\\~b",
		"/:é/:_$1x":               "/:é/:_$1x",
		"/(":                      "/(",
		"/a\\":                    "/a\\",
		"/\\%41":                  `/\A`,
		"/{.:ext}?/.{b}":          "/{.:ext}?/.{b}",
		"/:a(100%)":               "/:a(100%)",
	} {
		if got, err := Pattern(text); err != nil || got != want {
			t.Errorf("Pattern(%s) = %s, %v, want %s and no error", text, got, err, want)
		}
	}
	for text, want := range map[string]error{
		"/a/../b":     ErrDotSegment,
		"/\\./:x":     ErrDotSegment,
		"/{.}.":       ErrDotSegment,
		"/..%2F*":     ErrAmbiguousDots,
		"/*%5C..":     ErrAmbiguousDots,
		"/..;:a":      ErrAmbiguousDots,
		"/%0a":        ErrControl,
		"/:a/%":       ErrEscape,
		"/:a/\\%g":    ErrEscape,
		"/%C0%AE":     ErrOverlong,
		"/:a(%61)":    errNonCanonicalEscape,
		"/:a(%c3)":    errNonCanonicalEscape,
		"/:a(b%00)":   errNonCanonicalEscape,
		"/:a(%2f|%7)": errNonCanonicalEscape,
	} {
		if got, err := Pattern(text); !errors.Is(err, want) {
			t.Errorf("Pattern(%s) = %s, %v, want %v", text, got, err, want)
		}
	}
}

// FuzzPath compares Canonical with an independent implementation of an upstream, which decodes paths, cuts
// off path parameters, merges slashes and resolves dot segments. It can treat backslashes as slashes.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{
		"/", "/v1/..%2Fadmin", "/%61dmin", "//admin", "/admin%2Fx", "/a\"b", "/..;/x", "/%00", "/%252e%252e/", "/a//../b",
		"/%c0%ae", "/a/./b/..",
		"/x;a%2F../b", `/a\..\b`, "*", "", "/%u002e", "/é/[x]?", "/feature%2Fx/%5C",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		path, err := Canonical(raw)
		escaped := EscapeInvalid(raw)
		if second := EscapeInvalid(escaped); second != escaped {
			t.Fatalf("EscapeInvalid(%q), escaped from %q, = %q, want no change", escaped, raw, second)
		}
		if strict, other := CanonicalStrict(raw); other == nil && (err != nil || strict != path) {
			t.Fatalf("CanonicalStrict(%q) = %q, want %q, %v as from Canonical", raw, strict, path, err)
		}
		if err != nil {
			return
		}
		if second, err := Canonical(path); err != nil || second != path {
			t.Fatalf("Canonical(%q), the canonical form of %q, = %q, %v, want no change", path, raw, second, err)
		}
		decoded, err := url.PathUnescape(path)
		if err != nil {
			t.Fatalf("PathUnescape(%q), the canonical form of %q, error = %v, want none", path, raw, err)
		}
		if u := (&url.URL{Path: decoded, RawPath: path}); u.EscapedPath() != path {
			t.Fatalf("%q: EscapedPath() in net/url = %q, want %q", raw, u.EscapedPath(), path)
		}
		// An upstream must serve the same path for the canonical and the original path.
		for _, slashes := range []string{"/", `/\`} {
			for _, cut := range []bool{false, true} {
				if a, b := upstreamPath(path, slashes, cut), upstreamPath(raw, slashes, cut); a != b {
					t.Fatalf("upstream path of %q = %q, want %q as for %q (slashes %s, cut %v)", path, a, b, raw, slashes, cut)
				}
			}
		}
		for _, interpretation := range Interpretations(path) {
			if second, err := Canonical(interpretation); err != nil || second != interpretation {
				t.Fatalf("Canonical(%q), an interpretation of %q, = %q, %v, want no change", interpretation, path, second, err)
			}
		}
	})
}

// upstreamPath returns the path that an upstream serves for an escaped path. The upstream treats each
// character of slashes as a slash. If cut is true, it cuts off path parameters.
func upstreamPath(path, slashes string, cut bool) string {
	decoded, err := url.PathUnescape(path)
	if err != nil {
		return "invalid"
	}
	var out []string
	segments := strings.FieldsFunc(decoded+"\x00", func(r rune) bool { return strings.ContainsRune(slashes, r) })
	folder := false
	for i, segment := range segments {
		segment = strings.TrimSuffix(segment, "\x00")
		name := segment
		if cut {
			name, _, _ = strings.Cut(name, ";")
		}
		folder = i == len(segments)-1 && (name == "" || name == "." || name == "..")
		switch name {
		case "", ".":
		case "..":
			out = out[:max(0, len(out)-1)]
		default:
			out = append(out, name)
		}
	}
	text := "/" + strings.Join(out, "/")
	if folder && len(out) > 0 {
		text += "/"
	}
	return text
}

func BenchmarkCanonical(b *testing.B) {
	for _, path := range []string{
		"/repos/octo/hello/compare/main...dev", "/repos/octo/hello/branches/feature%2Fx",
		"/repos//octo/%68ello",
	} {
		b.Run(path, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = Canonical(path)
			}
		})
	}
}
