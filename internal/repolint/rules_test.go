package repolint

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// ruleCase is a tree that violates a rule, or that narrowly complies with it.
type ruleCase struct {
	name string
	rule Rule
	tree map[string]string
	want []string // a part of each finding, in any order; none for a tree that complies
}

// TestRulesReportViolationsOnly applies each rule to trees that violate it and to trees that narrowly comply. A rule
// that finds nothing in the repository could otherwise be a rule that checks nothing.
func TestRulesReportViolationsOnly(t *testing.T) {
	for _, c := range slices.Concat(
		packageCases(), copyCases(), stateCases(), recordCases(), keyPrefixCases(), sourceCases(),
		linkCases(), decisionCases(), commandCases(), buildCases(),
	) {
		t.Run(c.name, func(t *testing.T) {
			found := c.rule(readTree(t, c.tree))
			if len(found) != len(c.want) {
				t.Fatalf("findings = %v, want one for each of %q", found, c.want)
			}
			for _, want := range c.want {
				if !contains(found, want) {
					t.Errorf("findings = %v, want one with %q", found, want)
				}
			}
		})
	}
}

const packageDoc = "// Package keys holds keys. " + words25 + "\npackage keys\n"

// file returns a tree with one file.
func file(path, text string) map[string]string { return map[string]string{path: text} }

// source returns a tree with a package whose file contains body.
func source(body string) map[string]string {
	return map[string]string{"shared/resource/keys/keys.go": packageDoc + body}
}

const words25 = "It says here what it is and what it is not, and where its rules come from, in as many words " +
	"as that takes."

func readTree(t *testing.T, files map[string]string) *Tree {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	tree, err := Read(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// contains reports whether the text of a finding contains part.
func contains(found []Finding, part string) bool {
	for _, f := range found {
		if strings.Contains(f.String(), part) {
			return true
		}
	}
	return false
}

func TestReadIgnoresToolOutput(t *testing.T) {
	tree := readTree(t, map[string]string{
		"node_modules/x/x.md":      "[x](gone.md)",
		".gatewright/x.txt":        "data",
		"console/generated/x.ts":   "const x = 1",
		"shared/a/testdata/x.go":   "no Go at all",
		"picture.png":              "\x89PNG\x00",
		"shared/thirdparty/x/x.go": "package util",
	})
	if len(tree.Packages) != 0 || tree.Paths["node_modules/x/x.md"] || tree.Paths[".gatewright"] {
		t.Errorf("Read() = %d packages and the paths %v, want neither packages nor paths of tools", len(tree.Packages),
			tree.Paths)
	}
	if tree.Paths["console/generated/x.ts"] {
		t.Error("Read() = a tree with console/generated, want one without: a build may replace its files meanwhile")
	}
	if _, isText := tree.Texts["picture.png"]; isText || !tree.Paths["picture.png"] {
		t.Errorf("Read(): picture.png has a text = %v and a path = %v, want only a path", isText, tree.Paths["picture.png"])
	}
}

func TestDecisionIndexIsSortedByNumber(t *testing.T) {
	got := DecisionIndex(readTree(t, map[string]string{
		"docs/decisions/0002-b.md": "# 0002: Be\n",
		"docs/decisions/0001-a.md": "# Ay\n",
		"docs/decisions/README.md": "# Decisions\n",
		"docs/other/0003-c.md":     "# Elsewhere\n",
	}))
	want := "- [0001](0001-a.md): Ay\n- [0002](0002-b.md): Be\n"
	if !strings.HasSuffix(got, "\n\n"+want) {
		t.Errorf("DecisionIndex() =\n%s\nwant this end:\n%s", got, want)
	}
}
