package scaffold_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/scaffold"
)

// list returns n texts, separated by commas. format has the index of each text.
func list(n int, format string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(all, ",")
}

// TestHostileDescriptionsAreRefused checks descriptions that would multiply: a small file must not need gigabytes. The
// time and memory for each are those of the file.
func TestHostileDescriptionsAreRefused(t *testing.T) {
	t.Parallel()
	const responses = `"responses": {"200": {"description": "d"}}`
	described := func(servers, paths, components string) string {
		return `{"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "servers": [` + servers + `], "paths": {` +
			paths + `}, "components": {"pathItems": {` + components + `}}}`
	}
	const plain = `{"url": "https://a.example.com"}`
	for name, tt := range map[string]struct{ text, want string }{
		"an address that variables multiply": {
			described(`{"url": "https://a.example.com/`+strings.Repeat("{a}", 50_000)+`", "variables": {"a": {"default": "`+
				strings.Repeat("a", 500_000)+`"}}}`, `"/a": {"get": {`+responses+`}}`, ""),
			"it has more than 16384 bytes",
		},
		"many servers that cannot be used": {
			described(list(20_000, `{"url": "ftp://%d"}`), `"/a": {"get": {`+responses+`}}`, ""),
			"its scheme is neither http nor https",
		},
		"many paths at a chain that leads nowhere": {
			described(plain, list(20_000, `"/p%d": {"$ref": "#/components/pathItems/I1"}`), chain(15)),
			"the description has no operation that needs a route",
		},
		"more than 20 references": {
			described(plain, `"/a": {"$ref": "#/components/pathItems/I1"}`, chain(25)),
			"leads through more than 20 references",
		},
		"media types of Swagger": {
			`{"swagger": "2.0", "info": {"title": "t", "version": "1"}, "host": "a.example.com", "produces": [` +
				list(10_000, `"text/t%d"`) + `], "paths": {` + list(10_000, `"/p%d": {"get": {`+responses+`}}`) + `}}`,
			"too many media types",
		},
	} {
		_, err := scaffold.AddRoutes([]byte(tt.text), scaffold.Options{})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: AddRoutes() error = %.300v, want one with %q", name, err, tt.want)
		} else if len(err.Error()) > 5_000 {
			t.Errorf("%s: AddRoutes() error has %d bytes, want at most 5000", name, len(err.Error()))
		}
	}
}

// chain returns path items I1, I11, I111 and so on. Each of the n items refers to the next one.
func chain(n int) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf(`"I%s": {"$ref": "#/components/pathItems/I%s"}`, strings.Repeat("1", i+1),
			strings.Repeat("1", i+2))
	}
	return strings.Join(items, ",")
}

// TestLargeRootMembersAreReadOnce converts a description whose security and servers are large, with many operations. If
// they were read for each operation, this would take hours.
func TestLargeRootMembersAreReadOnce(t *testing.T) {
	t.Parallel()
	text := `{"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "servers": [{"url": "https://a.example.com"},` +
		list(50_000, `{"url": "https://b%d.example.com"}`) + `], "security": [` + list(50_000, `{"s%d": []}`) +
		`], "paths": {` +
		list(10_000, `"/p%d": {"get": {"responses": {"200": {"description": "d"}}}}`) + `}}`
	got, err := scaffold.AddRoutes([]byte(text), scaffold.Options{})
	if err != nil || got.Added != 10_000 || got.IsSecured {
		t.Errorf("AddRoutes() = %d routes, secured %t, error %v, want 10000 unsecured ones", got.Added, got.IsSecured, err)
	}
}

// TestReferredPathsOfSwaggerAreReported checks that a path that refers to a path item is noted: the conversion leaves it
// out.
func TestReferredPathsOfSwaggerAreReported(t *testing.T) {
	t.Parallel()
	got, err := scaffold.AddRoutes([]byte(`{"swagger": "2.0", "info": {"title": "t", "version": "1"},
		"host": "a.example.com", "paths": {"/a": {"get": {"responses": {"200": {"description": "d"}}}},
		"/b": {"$ref": "#/paths/~1a"}}}`), scaffold.Options{})
	const want = "leaves out the path items that paths refer to ($ref) (occurrences: 1)"
	if err != nil || !strings.Contains(strings.Join(got.Notes, "\n"), want) {
		t.Errorf("AddRoutes() notes = %q, error %v, want one with %q", got.Notes, err, want)
	}
}
