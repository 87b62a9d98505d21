package project_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
)

// yamlRoutes is the name of a routes file in YAML.
const yamlRoutes = "config/routes.oas.yaml"

// yamlHead is the beginning of a document in YAML. The paths follow.
const yamlHead = "openapi: 3.1.0\ninfo: {title: t, version: '1'}\n"

// TestPathsInYAMLKeepTheirOrder checks that routes have the order of the file, because URL patterns are matched in it.
func TestPathsInYAMLKeepTheirOrder(t *testing.T) {
	var text strings.Builder
	text.WriteString(yamlHead + "x-r: &r {get: " + strings.NewReplacer(`"`, `'`).Replace(strings.TrimSuffix(
		strings.TrimPrefix(operation(`{"rewritePattern": "https://a.example.com"}`, ""), `{"get": `), "}")) + "}\npaths:\n")
	var want []string
	for _, i := range []int{7, 3, 9, 1, 8, 2} {
		fmt.Fprintf(&text, "  /p%d/:rest*: {x-gateway-path: {pathMode: url-pattern}, <<: *r}\n", i)
		want = append(want, fmt.Sprintf("/p%d/:rest*", i))
	}
	artifact, result := compile(t, project.Files{yamlRoutes: []byte(text.String())}, project.Input{Catalog: lenient{}})
	if artifact == nil {
		t.Fatalf("Compile() errors = %v, want none", result.Errors)
	}
	var got []string
	for _, r := range artifact.Routes {
		got = append(got, r.Path)
	}
	if !slices.Equal(got, want) {
		t.Errorf("Compile() paths = %q, want %q", got, want)
	}
}

// TestBudgetsHoldForYAML checks that the budgets of JSON files also apply to YAML files, and that the errors have lines.
func TestBudgetsHoldForYAML(t *testing.T) {
	for name, tt := range map[string]struct {
		text, want string
		line       int
	}{
		"name":             {"x-a:\n  ? " + strings.Repeat("n", 2_050) + "\n  : 1\n", "2,050 bytes", 3},
		"members":          {"x-a: {" + list(20_001, "m%d: 1") + "}\n", "20,001 members", 3},
		"number":           {"x-a: " + strings.Repeat("1", 65) + "\n", "65 characters", 3},
		"exponent":         {"x-a: 1e999\n", "between -1e308 and 1e308", 3},
		"values":           {"x-a: &a [" + list(1_000, "0") + "]\nx-b: [" + list(1_000, "*a") + "]\n", "1,000,001 values", 3},
		"nodes":            {"x-a: [" + list(1_500_000, "0") + "]\n", "nodes, and at most 1,500,000", 0},
		"depth":            {"x-a: " + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "\n", "more than 128 levels", 3},
		"aliases":          {"x-a: &a [*a]\n", "contains itself", 3},
		"large":            {"x-a: &a " + strings.Repeat("a", 1<<20) + "\nx-b: [" + list(100, "*a") + "]\n", "too large", 4},
		"latin-1":          {"x-a: caf\xe9\n", "not in UTF-8, but probably in Latin-1", 3},
		"a duplicate name": {"x-a: 1\nx-a: 2\n", "has the name \"x-a\" already, in line 3", 4},
	} {
		files := project.Files{yamlRoutes: []byte(yamlHead + tt.text + "paths: {}\n")}
		_, result := compile(t, files, project.Input{Catalog: lenient{}})
		if len(result.Errors) == 0 || !strings.Contains(result.Errors[0].Message, tt.want) {
			t.Errorf("%s: Compile() errors = %.400v, want one with %q", name, result.Errors, tt.want)
			continue
		}
		if got := result.Errors[0].Line; got != tt.line && tt.line > 0 {
			t.Errorf("%s: Compile() error is in line %d, want line %d: %v", name, got, tt.line, result.Errors[0])
		}
	}
}

// manyFiles returns a project whose description has n files: each path item and each schema is in a separate file, and the
// schemas refer to each other in circles.
func manyFiles(n int) project.Files {
	files := project.Files{}
	var text strings.Builder
	text.WriteString(yamlHead + "paths:\n")
	for i := range n / 2 {
		fmt.Fprintf(&text, "  /p%d: {$ref: paths/%d.json}\n", i, i)
		const description = `"description": "d"`
		item := strings.Replace(operation(`{"rewritePattern": "https://a.example.com"}`, ""), description, fmt.Sprintf(
			description+`, "content": {"application/json": {"schema": {"$ref": "../schemas/%d.yaml"}}}`, i), 1)
		files[fmt.Sprintf("config/paths/%d.json", i)] = []byte(item)
		files[fmt.Sprintf("config/schemas/%d.yaml", i)] = fmt.Appendf(nil,
			"type: object\nproperties:\n  next: {$ref: \"%d.yaml\"}\n  first: {$ref: 0.yaml}\n  own: {$ref: '#'}\n", (i+1)%(n/2))
	}
	files[yamlRoutes] = []byte(text.String())
	return files
}

// TestDescriptionsOfManyFiles checks a description with as many files as the largest public ones, and that the result lists
// all of these files for clients that watch them.
func TestDescriptionsOfManyFiles(t *testing.T) {
	const n = 2_900
	files := manyFiles(n)
	artifact, result := compile(t, files, project.Input{Catalog: lenient{}})
	if artifact == nil || len(artifact.Routes) != n/2 {
		t.Fatalf("Compile() errors = %v, want none and %d routes", result.Errors, n/2)
	}
	if got := artifact.Routes[7].Source; got != (project.Source{File: "config/paths/7.json", Pointer: "/get"}) {
		t.Errorf("Compile() source of a route = %v, want /get of config/paths/7.json", got)
	}
	delete(files, yamlRoutes)
	if want := slices.Sorted(maps.Keys(files)); !slices.Equal(result.References, want) {
		t.Errorf("Compile() references = %d files, want %d", len(result.References), len(want))
	}
}

// TestReferencedFilesCountAgainstTheBudgets checks that the values of all files share one budget, and that every build
// reports the same file.
func TestReferencedFilesCountAgainstTheBudgets(t *testing.T) {
	files := documentFiles(`"paths": {}, "components": {"schemas": {"a": {"$ref": "../b.json"}, "b": {"$ref": "a.json"},
		"c": {"$ref": "../c.json"}}}`)
	files[routes] = bytes.Replace(files[routes], []byte("3.0.3"), []byte("3.1.0"), 1)
	for _, name := range []string{"config/a.json", "b.json", "c.json"} {
		files[name] = []byte(`{"x": [` + list(400_000, "0") + `]}`)
	}
	for range 3 {
		_, result := compile(t, files, project.Input{Catalog: lenient{}})
		if len(result.Errors) != 1 || result.Errors[0].File != "c.json" ||
			!strings.Contains(result.Errors[0].Message, `"values"`) {
			t.Fatalf("Compile() errors = %v, want one of the budget \"values\" in c.json", result.Errors)
		}
	}
}

// TestOverlappingReferencesEnd checks references to each level of a deep file. To check each level separately would take
// minutes.
func TestOverlappingReferencesEnd(t *testing.T) {
	var members []string
	for i := range 100 {
		at := strings.Repeat("/properties/a", i)
		members = append(members, fmt.Sprintf(`"s%d": {"$ref": "deep.json#%s"}`, i, at))
	}
	files := documentFiles(`"paths": {}, "components": {"schemas": {` + strings.Join(members, ",") + `}}`)
	files["config/deep.json"] = []byte(strings.Repeat(`{"properties": {"a": `, 60) + `{"properties": {` +
		list(19_000, `"p%d": {"type": "string", "enum": ["a", "b", "c"]}`) + `}}` + strings.Repeat("}}", 60))
	_, result := compile(t, files, project.Input{Catalog: lenient{}})
	if len(result.Errors) == 0 || !strings.Contains(result.Errors[0].Message, "leads nowhere") {
		t.Errorf("Compile() errors = %.300v, want those of references that lead nowhere", result.Errors)
	}
}

// TestUnpackKeepsReferableFiles checks which JSON and YAML files are kept if they exceed the limit together. The order of
// the entries must not matter.
func TestUnpackKeepsReferableFiles(t *testing.T) {
	limits := project.DefaultLimits()
	limits.ConfigBytes, limits.FileBytes = 1_000, 500
	of := func(name string, size int) entry { return file(name, strings.Repeat("x", size)) }
	for name, tt := range map[string]struct {
		entries []entry
		kept    []string
	}{
		"all": {
			[]entry{of(routes, 200), of("config/a.json", 300), of("b.yml", 300), of("node_modules/c/c.json", 200)},
			[]string{"b.yml", "config/a.json", routes, "node_modules/c/c.json"},
		},
		"without modules": {
			[]entry{of(routes, 200), of("config/a.json", 300), of("b.yml", 300), of("node_modules/c/c.json", 201)},
			[]string{"b.yml", "config/a.json", routes},
		},
		"config alone": {
			[]entry{of(routes, 200), of("config/a.json", 300), of("b.yml", 400), of("x/c.yaml", 101)},
			[]string{"config/a.json", routes},
		},
		"the configuration alone": {
			[]entry{of(routes, 200), of("config/a.json", 401), of("config/b.yml", 400)},
			[]string{routes},
		},
		"without a large file": {
			[]entry{of(routes, 200), of("config/a.json", 501), of("b.json", 300)},
			[]string{"b.json", routes},
		},
	} {
		reversed := slices.Clone(tt.entries)
		slices.Reverse(reversed)
		for _, entries := range [][]entry{tt.entries, reversed} {
			files, problems, err := project.Unpack(t.Context(), bytes.NewReader(newArchive(t, entries...)), limits)
			if err != nil || len(problems) > 0 {
				t.Fatalf("%s: Unpack() problems = %v, error %v, want none", name, problems, err)
			}
			var kept []string
			for name, data := range files {
				if data != nil {
					kept = append(kept, name)
				}
			}
			slices.Sort(kept)
			if !slices.Equal(kept, tt.kept) || len(files) != len(entries) {
				t.Errorf("%s: Unpack() kept %q of %d files, want %q of %d", name, kept, len(files), tt.kept, len(entries))
			}
		}
	}
}

// TestFilesThatAreNotReadAreReported checks the message about a reference to a file that Unpack has left out.
func TestFilesThatAreNotReadAreReported(t *testing.T) {
	files := documentFiles(`"paths": {"/a": {"$ref": "a.json"}}`)
	files["config/a.json"] = nil
	_, result := compile(t, files, project.Input{Catalog: lenient{}})
	wantProblem(t, "Compile() errors", result.Errors, "/paths/~1a/$ref", "is not read: it is larger than 24 MiB")
}
