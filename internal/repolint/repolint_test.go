package repolint

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gatewright/gatewright/shared/testing/golden"
)

// repository is the path of the repository's root from this package.
const repository = "../.."

// rules returns all rules, by name.
func rules() map[string]Rule {
	return map[string]Rule{
		"PackageNames":     PackageNames,
		"PackageDocs":      PackageDocs,
		"PackageState":     PackageState,
		"FileLengths":      FileLengths,
		"InitFunctions":    InitFunctions,
		"Expressions":      RegularExpressions,
		"RootContexts":     RootContexts,
		"Todos":            Todos,
		"Links":            Links,
		"Decisions":        Decisions,
		"MakeTargets":      MakeTargets,
		"NpmFolders":       NpmFolders,
		"BuildFlags":       BuildFlags,
		"Systems":          UncompiledSystems,
		"Architectures":    Architectures,
		"Foreign":          MachinePaths,
		"Programs":         Programs,
		"LinterReasons":    LinterReasons,
		"Directives":       UnusedNolint,
		"KeyPrefixes":      KeyPrefixes,
		"Records":          Records,
		"RequestBodies":    RequestBodies,
		"FolderOrder":      FolderOrder,
		"Layers":           Layers,
		"UncheckedImports": UncheckedImports,
		"RunPatterns":      RunPatterns,
		"Comments":         Comments,
		"Names":            Names,
		"StaleNames":       StaleNames,
		"PromotedCopies":   PromotedCopies,
		"Messages":         Messages,
	}
}

// readOnce reads the repository once for all tests. No test changes the tree.
var readOnce = sync.OnceValues(func() (*Tree, error) { return Read(os.DirFS(repository)) })

func readRepository(t *testing.T) *Tree {
	t.Helper()
	tree, err := readOnce()
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestRepositoryFollowsItsRules(t *testing.T) {
	tree := readRepository(t)
	if len(tree.Packages) == 0 || tree.Texts["go.mod"] == "" {
		t.Fatalf("readRepository() = %d packages and a go.mod of %d bytes, want the repository", len(tree.Packages),
			len(tree.Texts["go.mod"]))
	}
	for name, rule := range rules() {
		t.Run(name, func(t *testing.T) { report(t, rule(tree)) })
	}
}

// TestStoredFormatOnlyGrows checks that no line of the last release was removed; -update never removes such a line.
// Remove a line by hand when no release that knows it can run at the same time as this version.
func TestStoredFormatOnlyGrows(t *testing.T) {
	const file = "testdata/stored.txt"
	current := StoredFormat(readRepository(t))
	released, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	removed := Removed(strings.Split(string(released), "\n"), current)
	for _, line := range removed {
		t.Error(line)
	}
	if removed == nil {
		golden.Equal(t, file, strings.Join(current, "\n")+"\n")
	}
}

func TestStoredFormatChangesAreRefused(t *testing.T) {
	type tree = map[string]string
	source := func(fields string) tree {
		return tree{"k/k.go": "package k\nimport \"github.com/gatewright/gatewright/shared/core/store\"\n// S has.\nconst " +
			"s store.KeyPrefix = \"s\"\ntype r struct {\n" + fields + "\n}"}
	}
	const id = "ID string `dynamodbav:\"id,omitempty\"`\n"
	previous := StoredFormat(readTree(t, source(id)))
	if !slices.Equal(previous, []string{"k.r id,omitempty string", "space s"}) {
		t.Fatalf("StoredFormat() = %q, want one attribute and one key prefix", previous)
	}
	for fields, want := range map[string]int{
		id: 0, id + "More *int `dynamodbav:\"more\"`": 0, "Name string `dynamodbav:\"id,omitempty\"`": 0,
		"ID int `dynamodbav:\"id,omitempty\"`": 1, "ID string `dynamodbav:\"key,omitempty\"`": 1,
		"ID string `dynamodbav:\"-\"`": 1, "": 1,
	} {
		if found := Removed(previous, StoredFormat(readTree(t, source(fields)))); len(found) != want {
			t.Errorf("Removed() after the change to %q = %q, want %d findings", fields, found, want)
		}
	}
}

func TestDecisionsAreInTheIndex(t *testing.T) {
	golden.Equal(t, path.Join(repository, DecisionsDir, "index.md"), DecisionIndex(readRepository(t)))
}

func TestPackagesRespectFolderBoundaries(t *testing.T) {
	report(t, readGraph(t).Boundaries())
}

func TestFunctionsLinkListedPackagesOnly(t *testing.T) {
	// Read the tree, so that every source is an input of this test, and Go's test cache discards the result when a
	// source changes. The cache does not know which files the go command reads.
	readRepository(t)
	g := readGraph(t)
	for _, function := range g.Functions() {
		t.Run(function, func(t *testing.T) {
			golden.Equal(t, path.Join(repository, "functions", function, "deps.txt"), g.Dependencies(function))
		})
	}
}

// graphOnce reads the graph once for all tests, because that takes a second.
var graphOnce = sync.OnceValues(func() (Graph, error) { return ReadGraph(context.Background(), repository) })

func readGraph(t *testing.T) Graph {
	t.Helper()
	g, err := graphOnce()
	if err != nil {
		t.Fatal(err)
	}
	if g[Module+"/internal/repolint"] == nil {
		t.Fatalf("ReadGraph() lacks %s, want it", Module+"/internal/repolint")
	}
	return g
}

// report fails the test if there is a finding.
func report(t *testing.T, found []Finding) {
	t.Helper()
	lines := make([]string, len(found))
	for i, f := range found {
		lines[i] = f.String()
	}
	slices.Sort(lines)
	if len(lines) > 0 {
		t.Errorf("%d findings, want none:\n%s", len(lines), strings.Join(slices.Compact(lines), "\n"))
	}
}
