package router

import (
	"slices"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
)

func TestURLPatternsAreTriedInOrderAfterTemplates(t *testing.T) {
	paths := []string{
		"/books/:id(\\d+)",
		"/books/:title",
		"/docs/*",
		"/opt/:a{/:b}?",
		"/many/:rest+",
		"/lit.eral",
		"/lang/:lang(en|de)/*",
		"/end/:x?",
		"*.suffix",
	}
	r := newRouter(t, project.URLPattern, paths...)
	if err := r.Add("GET", "/docs/{page}", project.OpenAPIPath, len(paths)); err != nil {
		t.Fatal(err)
	}
	all := append(slices.Clone(paths), "/docs/{page}")
	for path, want := range map[string]string{
		"/books/12":    "/books/:id(\\d+) id=12",
		"/books/dune":  "/books/:title title=dune",
		"/books/a%2Fb": "/books/:title title=a%2Fb",
		"/books/":      "-",
		"/docs/a/b/c":  "/docs/* 0=a/b/c",
		"/docs/":       "/docs/* 0=",
		"/docs/one":    "/docs/{page} page=one",
		"/docsx":       "-",
		"/opt/1":       "/opt/:a{/:b}? a=1 b=",
		"/opt/1/2":     "/opt/:a{/:b}? a=1 b=2",
		"/many/a/b":    "/many/:rest+ rest=a/b",
		"/many":        "-",
		"/lit.eral":    "/lit.eral",
		"/litxeral":    "-",
		"/lang/en/x":   "/lang/:lang(en|de)/* 0=x lang=en",
		"/lang/fr/x":   "-",
		"/end":         "/end/:x? x=",
		"/end/1":       "/end/:x? x=1",
		"/a/b.suffix":  "*.suffix 0=/a/b",
	} {
		if got := describeMatch(r, all, path); got != want {
			t.Errorf("Find(%s) = %s, want %s", path, got, want)
		}
	}
}
