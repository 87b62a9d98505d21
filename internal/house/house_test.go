package house

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

	"github.com/gatewright/gatewright/internal/golden"
)

// repository is its root, seen from this package.
const repository = "../.."

func rules() map[string]Rule {
	return map[string]Rule{
		"PackageNames":  PackageNames,
		"PackageDocs":   PackageDocs,
		"PackageState":  PackageState,
		"FileLengths":   FileLengths,
		"InitFunctions": InitFunctions,
		"Expressions":   Expressions,
		"RootContexts":  RootContexts,
		"Todos":         Todos,
		"Links":         Links,
		"Decisions":     Decisions,
		"MakeTargets":   MakeTargets,
		"BuildFlags":    BuildFlags,
		"Systems":       Systems,
		"Architectures": Architectures,
		"Foreign":       Foreign,
		"Programs":      Programs,
		"LinterReasons": LinterReasons,
		"Directives":    Directives,
		"KeySpaces":     KeySpaces,
		"Records":       Records,
		"RequestBodies": RequestBodies,
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

func TestTheRepositoryKeepsItsRules(t *testing.T) {
	tree := readRepository(t)
	if len(tree.Packages) == 0 || tree.Texts["go.mod"] == "" {
		t.Fatal("this is not the repository")
	}
	for name, rule := range rules() {
		t.Run(name, func(t *testing.T) { report(t, rule(tree)) })
	}
}

// TestWhatIsStoredOnlyGrows: no -update takes away what the last release knows. A line goes by hand, once no release
// knows it that is served beside this one.
func TestWhatIsStoredOnlyGrows(t *testing.T) {
	const file = "testdata/stored.txt"
	is := Stored(readRepository(t))
	was, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	removed := Removed(strings.Split(string(was), "\n"), is)
	for _, line := range removed {
		t.Error(line)
	}
	if removed == nil {
		golden.Equal(t, file, strings.Join(is, "\n")+"\n")
	}
}

func TestChangesOfWhatIsStoredAreRefusedAndAdditionsAreNot(t *testing.T) {
	type tree = map[string]string
	source := func(fields string) tree {
		return tree{"k/k.go": "package k\nimport \"github.com/gatewright/gatewright/shared/store\"\n// S has.\nconst s store.Space = \"s\"\ntype r struct {\n" + fields + "\n}"}
	}
	const id = "ID string `dynamodbav:\"id,omitempty\"`\n"
	was := Stored(readTree(t, source(id)))
	if !slices.Equal(was, []string{"k.r id,omitempty string", "space s"}) {
		t.Fatalf("stored are %q", was)
	}
	for fields, want := range map[string]int{
		id: 0, id + "More *int `dynamodbav:\"more\"`": 0, "Name string `dynamodbav:\"id,omitempty\"`": 0,
		"ID int `dynamodbav:\"id,omitempty\"`": 1, "ID string `dynamodbav:\"key,omitempty\"`": 1, "ID string `dynamodbav:\"-\"`": 1, "": 1,
	} {
		if found := Removed(was, Stored(readTree(t, source(fields)))); len(found) != want {
			t.Errorf("%q: %q", fields, found)
		}
	}
}

func TestDecisionsAreInTheIndex(t *testing.T) {
	golden.Equal(t, path.Join(repository, DecisionsDir, "index.md"), DecisionIndex(readRepository(t)))
}

func TestNoPackageReachesWhatItsFolderMustNot(t *testing.T) {
	report(t, readGraph(t).Boundaries())
}

func TestEachFunctionLinksWhatItsListSays(t *testing.T) {
	// Reading the tree makes every source an input of this test, so that Go's
	// test cache forgets the result when one changes: it does not see what
	// the go command reads.
	readRepository(t)
	g := readGraph(t)
	for _, function := range g.Functions() {
		t.Run(function, func(t *testing.T) {
			golden.Equal(t, path.Join(repository, "functions", function, "deps.txt"), g.Dependencies(function))
		})
	}
}

// graphOnce reads the graph once for all tests: it takes a second.
var graphOnce = sync.OnceValues(func() (Graph, error) { return ReadGraph(context.Background(), repository) })

func readGraph(t *testing.T) Graph {
	t.Helper()
	g, err := graphOnce()
	if err != nil {
		t.Fatal(err)
	}
	if g[Module+"/internal/house"] == nil {
		t.Fatal("the graph lacks this package")
	}
	return g
}

func report(t *testing.T, found []Finding) {
	t.Helper()
	lines := make([]string, len(found))
	for i, f := range found {
		lines[i] = f.String()
	}
	slices.Sort(lines)
	if len(lines) > 0 {
		t.Errorf("%d findings:\n%s", len(lines), strings.Join(slices.Compact(lines), "\n"))
	}
}
