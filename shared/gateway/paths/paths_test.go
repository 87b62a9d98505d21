package paths

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestAPathHasOneSpelling(t *testing.T) {
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
		"/a%2Fb/../../c":                 "!",
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
				t.Errorf("%q: got %s, want a refusal", raw, got)
			}
			continue
		}
		if err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", raw, got, err, want)
			continue
		}
		if again, err := Canonical(got); err != nil || again != got {
			t.Errorf("%q: canonical twice: %q, %v", raw, again, err)
		}
		within, err := Within(raw)
		hasDots := slices.ContainsFunc(strings.Split(strings.NewReplacer("%2e", ".", "%2E", ".").Replace(raw), "/"),
			func(s string) bool { return s == "." || s == ".." })
		if hasDots != errors.Is(err, ErrDots) || !hasDots && within != want {
			t.Errorf("%q: within its place it is %q, %v", raw, within, err)
		}
	}
}

func TestPathsThatUpstreamsReadInDifferentWaysAreRefused(t *testing.T) {
	for raw, want := range map[string]error{
		"":                       ErrForm,
		"*":                      ErrForm,
		"a/b":                    ErrForm,
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
		"/v1/..%2Fadmin":         ErrHidden,
		"/v1/..%2fadmin":         ErrHidden,
		"/v1/%2e%2E%2Fa":         ErrHidden,
		"/v1/.%2Fadmin":          ErrHidden,
		"/v1/x%2F..":             ErrHidden,
		"/v1/x%2F../admin":       ErrHidden,
		"/v1/x%2F.%2Fadmin":      ErrHidden,
		"/v1/%2F..":              ErrHidden,
		"/v1/..%5Cadmin":         ErrHidden,
		`/v1/..\admin`:           ErrHidden,
		`/v1/a\..\b`:             ErrHidden,
		"/v1/..%2F%5Cx":          ErrHidden,
		"/v1/..;/admin":          ErrHidden,
		"/v1/..;a":               ErrHidden,
		"/v1/.;":                 ErrHidden,
		"/v1/..%3Ba":             ErrHidden,
		"/v1/..%3ba;b":           ErrHidden,
		"/v1/%2e%2e;/x":          ErrHidden,
		"/v1/x%2F..;a":           ErrHidden,
		"/v1/x;a%2F..":           ErrHidden,
		"/a%2Fb/..":              ErrHidden,
		"/a%5Cb/../c":            ErrHidden,
		"/a/;/../c":              ErrHidden,
		"/a/%3Bx/../c":           ErrHidden,
		"/a%2Fb/c/../../d":       ErrHidden,
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
			t.Errorf("%q: got %q, %v, want %v", raw, got, err, want)
		}
		if got, err := Within(raw); err == nil {
			t.Errorf("%q: within its place it is %q", raw, got)
		}
	}
}

func TestACanonicalPathNeedsNoMemory(t *testing.T) {
	for _, path := range []string{"/", "/v1/todos/7", "/repos/octo/hello/compare/main...dev", "/.well-known/x", "/feature%2Fx/a;b/caf%C3%A9"} {
		if n := testing.AllocsPerRun(100, func() { _, _ = Canonical(path) }); n != 0 {
			t.Errorf("%s: %v allocations", path, n)
		}
		if n := testing.AllocsPerRun(100, func() { _ = Written(path) }); n != 0 {
			t.Errorf("%s: %v allocations to keep it as it is", path, n)
		}
	}
	if n := testing.AllocsPerRun(100, func() { _ = Readings("/caf%C3%A9/x%20y") }); n != 0 {
		t.Errorf("%v allocations to see that a path is read in one way", n)
	}
}

func TestAWrittenPathKeepsItsEscapes(t *testing.T) {
	for raw, want := range map[string]string{
		"/a//b/../%2e/%c3%A9":  "/a//b/../%2e/%c3%A9",
		"/a\"b c%":             "/a%22b%20c%25",
		"/é[1]{2}":             "/%C3%A9[1]%7B2%7D",
		"/%zz%4":               "/%25zz%254",
		"*":                    "*",
		"":                     "",
		"/a\\b?c#d\x00%41;v=1": "/a%5Cb%3Fc%23d%00%41;v=1",
	} {
		got := Written(raw)
		if got != want {
			t.Errorf("%q: got %q, want %q", raw, got, want)
		}
		// net/url would escape anew what it finds no valid escaping of a path.
		decoded, err := url.PathUnescape(got)
		if u := (&url.URL{Path: decoded, RawPath: got}); err != nil || u.EscapedPath() != got && got != "" {
			t.Errorf("%q: net/url makes %q of it, %v", got, u.EscapedPath(), err)
		}
	}
}

func TestReadingsAreThoseOfUpstreams(t *testing.T) {
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
		if got := Readings(path); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

func TestTemplatesAreSpelledAsPathsAre(t *testing.T) {
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
		"/{a//b}":                "/{a/b}", // refused where names are read
		"/$bulk/%24bulk/a:b/%2A": "/$bulk/%24bulk/a:b/%2A",
	} {
		if got, err := Template(text); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]error{
		"/a/./b":      ErrDots,
		"/%2e%2E":     ErrDots,
		"/{a}/..":     ErrDots,
		"/..%2F{a}":   ErrHidden,
		"/{a}%5C..":   ErrHidden,
		"/..;{a}":     ErrHidden,
		"/{a}/%00":    ErrControl,
		"/{a}%C0%AE":  ErrOverlong,
		"/100%":       ErrEscape,
		"/{a}/%2}x{b": ErrEscape,
	} {
		if got, err := Template(text); !errors.Is(err, want) {
			t.Errorf("%s: got %s, %v, want %v", text, got, err, want)
		}
	}
}

func TestURLPatternsAreSpelledAsPathsAre(t *testing.T) {
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
			t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
		}
	}
	for text, want := range map[string]error{
		"/a/../b":     ErrDots,
		"/\\./:x":     ErrDots,
		"/{.}.":       ErrDots,
		"/..%2F*":     ErrHidden,
		"/*%5C..":     ErrHidden,
		"/..;:a":      ErrHidden,
		"/%0a":        ErrControl,
		"/:a/%":       ErrEscape,
		"/:a/\\%g":    ErrEscape,
		"/%C0%AE":     ErrOverlong,
		"/:a(%61)":    errExpression,
		"/:a(%c3)":    errExpression,
		"/:a(b%00)":   errExpression,
		"/:a(%2f|%7)": errExpression,
	} {
		if got, err := Pattern(text); !errors.Is(err, want) {
			t.Errorf("%s: got %s, %v, want %v", text, got, err, want)
		}
	}
}

// FuzzPath compares Canonical with an upstream that knows nothing of it: one that
// decodes, takes both slashes for slashes, cuts parameters, merges and resolves.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{
		"/", "/v1/..%2Fadmin", "/%61dmin", "//admin", "/admin%2Fx", "/a\"b", "/..;/x", "/%00", "/%252e%252e/", "/a//../b", "/%c0%ae", "/a/./b/..",
		"/x;a%2F../b", `/a\..\b`, "*", "", "/%u002e", "/é/[x]?", "/feature%2Fx/%5C",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		path, err := Canonical(raw)
		written := Written(raw)
		if again := Written(written); again != written {
			t.Fatalf("%q: written %q, then %q", raw, written, again)
		}
		if within, other := Within(raw); other == nil && (err != nil || within != path) {
			t.Fatalf("%q: canonical %q, %v, within its place %q", raw, path, err, within)
		}
		if err != nil {
			return
		}
		if again, err := Canonical(path); err != nil || again != path {
			t.Fatalf("%q: canonical %q, then %q, %v", raw, path, again, err)
		}
		decoded, err := url.PathUnescape(path)
		if err != nil {
			t.Fatalf("%q: canonical %q: %v", raw, path, err)
		}
		if u := (&url.URL{Path: decoded, RawPath: path}); u.EscapedPath() != path {
			t.Fatalf("%q: net/url makes %q of %q", raw, u.EscapedPath(), path)
		}
		// Whatever an upstream makes of the canonical path, it makes of the written one.
		for _, slashes := range []string{"/", `/\`} {
			for _, cut := range []bool{false, true} {
				if a, b := served(path, slashes, cut), served(raw, slashes, cut); a != b {
					t.Fatalf("%q: an upstream serves %q, and %q for %q (slashes %s, cut %v)", raw, b, a, path, slashes, cut)
				}
			}
		}
		for _, reading := range Readings(path) {
			if again, err := Canonical(reading); err != nil || again != reading {
				t.Fatalf("%q: the reading %q is canonical as %q, %v", path, reading, again, err)
			}
		}
	})
}

// served is what an upstream serves for an escaped path.
func served(path, slashes string, cut bool) string {
	decoded, err := url.PathUnescape(path)
	if err != nil {
		return "invalid"
	}
	var kept []string
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
			kept = kept[:max(0, len(kept)-1)]
		default:
			kept = append(kept, name)
		}
	}
	text := "/" + strings.Join(kept, "/")
	if folder && len(kept) > 0 {
		text += "/"
	}
	return text
}

func BenchmarkCanonical(b *testing.B) {
	for _, path := range []string{"/repos/octo/hello/compare/main...dev", "/repos/octo/hello/branches/feature%2Fx", "/repos//octo/%68ello"} {
		b.Run(path, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = Canonical(path)
			}
		})
	}
}
