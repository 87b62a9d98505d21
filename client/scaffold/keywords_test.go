package scaffold_test

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/gatewright/gatewright/client/scaffold"
	"github.com/gatewright/gatewright/shared/format/project"
)

// TestKeywordsReadByInitHaveEffect adds routes to descriptions with and without each keyword that init reads. The results
// must have different addresses of the upstream, or only one of them must be an error.
func TestKeywordsReadByInitHaveEffect(t *testing.T) {
	t.Parallel()
	const variable = `"servers": [{"url": "https://{v}.example.com"%s}],`
	const a, b = `"servers": [{"url": "https://a.example.com"}],`, `"servers": [{"url": "https://b.example.com"}],`
	// Each sample has the servers of the document, of the path and of the operation, with the keyword and without it.
	samples := map[string]struct{ with, without [3]string }{
		"OpenAPI/servers":   {[3]string{a}, [3]string{}},
		"Path Item/servers": {[3]string{a, b}, [3]string{a}},
		"Operation/servers": {[3]string{a, a, b}, [3]string{a, a}},
		"Server/url":        {[3]string{a}, [3]string{b}},
		"Server/variables": {
			[3]string{fmt.Sprintf(variable, `, "variables": {"v": {"default": "a"}}`)}, [3]string{fmt.Sprintf(variable, "")},
		},
		"Server Variable/default": {
			[3]string{fmt.Sprintf(variable, `, "variables": {"v": {"default": "a"}}`)},
			[3]string{fmt.Sprintf(variable, `, "variables": {"v": {"default": "b"}}`)},
		},
		"Server Variable/enum": {
			[3]string{fmt.Sprintf(variable, `, "variables": {"v": {"default": "a", "enum": ["b"]}}`)},
			[3]string{fmt.Sprintf(variable, `, "variables": {"v": {"default": "a"}}`)},
		},
	}
	address := regexp.MustCompile(`"baseUrl": "[^"]*"`)
	result := func(servers [3]string, given map[string]string) string {
		routes, err := scaffold.AddRoutes([]byte(fmt.Sprintf(`{"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, %s
			"paths": {"/a": {%s "get": {%s "responses": {"200": {"description": "d"}}}}}}`, servers[0], servers[1], servers[2])),
			scaffold.Options{ServerVariables: given})
		if err != nil {
			return "error"
		}
		return address.FindString(string(routes.Text))
	}
	var keywords []string
	for _, g := range project.Keywords() {
		for _, name := range g.Names {
			if g.Has(project.EffectInit) {
				keywords = append(keywords, g.Object+"/"+name)
			}
		}
	}
	for _, keyword := range keywords {
		s, exists := samples[keyword]
		if !exists {
			t.Errorf("sample of %s = none, want one: init reads it", keyword)
			continue
		}
		var given map[string]string
		if keyword == "Server Variable/enum" { // it restricts the values that users give
			given = map[string]string{"v": "a"}
		}
		if with, without := result(s.with, given), result(s.without, given); with == without {
			t.Errorf("AddRoutes() with and without %s = %s twice, want a difference", keyword, with)
		}
	}
	for keyword := range samples {
		if !slices.Contains(keywords, keyword) {
			t.Errorf("sample of %s = present, want none: init does not read it", keyword)
		}
	}
}
