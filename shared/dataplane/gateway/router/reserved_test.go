package router

import (
	"fmt"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
)

// TestReservedCharactersMatchAlike checks templates that have a reserved character after a parameter. Such a template
// matches both spellings of the character, with either spelling in the template, and neither spelling matches the path
// that has only the parameter. A ";" can also end a segment, so it is ambiguous there.
func TestReservedCharactersMatchAlike(t *testing.T) {
	t.Parallel()
	for _, c := range "!$&'()*+,;=:@" {
		escaped := fmt.Sprintf("%%%02X", c)
		for _, spelling := range []string{string(c), escaped} {
			all := []string{"/only/{id}", "/only/{id}" + spelling + "run"}
			r := newRouter(t, project.OpenAPIPath, all...)
			for _, path := range []string{"/only/5" + string(c) + "run", "/only/5" + escaped + "run"} {
				if got, want := describeMatch(r, all, path), all[1]+" id=5"; got != want {
					t.Errorf("Find(%s) = %s, want %s", path, got, want)
				}
				if got, want := r.IsAmbiguous(path), c == ';'; got != want {
					t.Errorf("IsAmbiguous(%s) with the route %s = %t, want %t", path, all[1], got, want)
				}
			}
		}
	}
	all := []string{"/only/{id}:run"}
	r := newRouter(t, project.OpenAPIPath, all...)
	for path, want := range map[string]string{
		"/only/a%2Fb:run":    "/only/{id}:run id=a%2Fb",
		"/only/a%2Fb%3Arun":  "/only/{id}:run id=a%2Fb",
		"/only/a%40b%3Arun":  "/only/{id}:run id=a@b",
		"/only/a%3Ab%3Arun":  "/only/{id}:run id=a:b",
		"/only/5%253Arun":    "-",
		"/only/%3Arun":       "-",
		"/only/5%3Arun/more": "-",
	} {
		if got := describeMatch(r, all, path); got != want {
			t.Errorf("Find(%s) = %s, want %s", path, got, want)
		}
	}
}
