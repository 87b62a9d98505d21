package house

import (
	"os"
	"path"
	"slices"
	"strings"
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
		"RootContexts":  RootContexts,
		"Todos":         Todos,
		"Links":         Links,
		"Decisions":     Decisions,
		"MakeTargets":   MakeTargets,
		"Systems":       Systems,
		"Architectures": Architectures,
		"Foreign":       Foreign,
		"Programs":      Programs,
		"LinterReasons": LinterReasons,
		"Directives":    Directives,
		"KeySpaces":     KeySpaces,
		"Records":       Records,
	}
}

func readRepository(t *testing.T) *Tree {
	t.Helper()
	tree, err := Read(os.DirFS(repository))
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

func readGraph(t *testing.T) Graph {
	t.Helper()
	g, err := ReadGraph(t.Context(), repository)
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
