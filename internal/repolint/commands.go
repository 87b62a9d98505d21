package repolint

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
	makeHelp   = regexp.MustCompile(`(?m)^([a-z][a-z-]*):.*## \S`)
	makeCall   = regexp.MustCompile(`\bmake ([a-z][a-z-]*)\b`)
	// makeCallLine matches a call of make with variables, such as STAGE=dev. Its group contains all variables of the call.
	makeCallLine = regexp.MustCompile(`\bmake [a-z][a-z-]*((?: +[A-Z][A-Z_]*=(?:'[^']*'|"[^"]*"|[^\s'"` + "`" + `]*))+)`)
	makeVariable = regexp.MustCompile(`(?:^| )([A-Z][A-Z_]*)=`)
	makeUses     = regexp.MustCompile(`\$[({](?:value )?([A-Z][A-Z_]*)\b`)
	indentedMake = regexp.MustCompile(`(?m)^ {4,}make .*$`)
)

// MakeTargets reports each `make target` in the code of a document that is not a target of the Makefile, each variable
// in such a call that the Makefile does not use, and each target without the line that `make help` shows. It ignores
// variables that begin with AWS_, because the programs that the targets run read them.
func MakeTargets(t *Tree) (found []Finding) {
	targets, helped := submatches(makeTarget, t.Texts["Makefile"]), submatches(makeHelp, t.Texts["Makefile"])
	used := submatches(makeUses, t.Texts["Makefile"])
	for target := range targets {
		if !helped[target] {
			found = append(found, Finding{Path: "Makefile", Text: target + " has no help: target: … ## what it does"})
		}
	}
	for name, text := range t.markdown() {
		prose := blank(fence, text)
		code := strings.Join(slices.Concat(fence.FindAllString(text, -1), inlineCode.FindAllString(prose, -1),
			indentedMake.FindAllString(prose, -1)), "\n")
		for _, call := range makeCallLine.FindAllStringSubmatch(code, -1) {
			for variable := range submatches(makeVariable, call[1]) {
				if !used[variable] && !strings.HasPrefix(variable, "AWS_") {
					found = append(found, Finding{Path: name, Text: call[0] + ": the Makefile uses no " + variable})
				}
			}
		}
		for target := range submatches(makeCall, code) {
			if !targets[target] {
				found = append(found, Finding{Path: name, Text: "make " + target + ": the Makefile has no such target"})
			}
		}
	}
	return found
}

var npmFolder = regexp.MustCompile(`\bnpm ci --prefix ([\w./-]*\w)`)

// NpmFolders reports each folder after `npm ci --prefix`, in any text file, if the folder has no package-lock.json.
func NpmFolders(t *Tree) (found []Finding) {
	for name, text := range t.Texts {
		for _, at := range npmFolder.FindAllStringSubmatchIndex(text, -1) {
			if folder := text[at[2]:at[3]]; !t.Paths[path.Join(folder, "package-lock.json")] {
				found = append(found, Finding{
					name, 1 + strings.Count(text[:at[0]], "\n"),
					text[at[0]:at[1]] + ": the folder has no package-lock.json",
				})
			}
		}
	}
	return found
}

var (
	systemFile = regexp.MustCompile(`_(windows|darwin|linux|unix|other)(_test)?\.go$`)
	portable   = regexp.MustCompile(`(?m)^PORTABLE := ((?:.*\\\n)*.*)$`)
)

// UncompiledSystems reports each file for one operating system, unless its package is in the list PORTABLE of the
// Makefile: `make cross` compiles these packages and their tests for all systems.
func UncompiledSystems(t *Tree) (found []Finding) {
	compiled := map[string]bool{}
	if list := portable.FindStringSubmatch(t.Texts["Makefile"]); list != nil {
		for _, dir := range strings.Fields(list[1]) {
			compiled[strings.TrimPrefix(dir, "./")] = true
		}
	}
	for name := range t.Texts {
		if dir := path.Dir(name); systemFile.MatchString(name) && !compiled[dir] {
			found = append(found, Finding{Path: name, Text: "PORTABLE in the Makefile lacks ./" +
				dir + ", so that nobody compiles this for its system"})
		}
	}
	return found
}

var (
	architectureFile = regexp.MustCompile(`_(386|amd64|arm|arm64)(_test)?\.go$`)
	architectureTag  = regexp.MustCompile(`^//go:build .*\b(386|amd64|arm|arm64)\b`)
)

// Architectures reports files that are compiled for only one architecture, because `make check` checks each system with
// only one architecture.
func Architectures(t *Tree) (found []Finding) {
	for _, p := range t.Packages {
		for name, file := range p.Files {
			if architectureFile.MatchString(name) {
				found = append(found, Finding{Path: name, Text: "is for one architecture, but make check checks each system " +
					"for only one (CHECKED in the Makefile)"})
			}
			for _, group := range file.Comments {
				for _, c := range group.List {
					if architectureTag.MatchString(c.Text) {
						found = append(found, Finding{name, t.line(c.Pos()), "is for one architecture, but make check checks each " +
							"system for only one (CHECKED in the Makefile)"})
					}
				}
			}
		}
	}
	return found
}

// submatches returns the texts that the first group of the pattern matches.
func submatches(pattern *regexp.Regexp, text string) map[string]bool {
	found := map[string]bool{}
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		found[m[1]] = true
	}
	return found
}

// foreign matches paths of one particular machine and hosts of package registries, which each machine configures differently. The
// patterns do not match themselves.
var foreign = regexp.MustCompile(`/(work|root)/|/home/[a-z]+/|` +
	`\b(proxy|sum)\.golang\.org|registry\.npmjs\.org|\bpypi\.org|` +
	`\bcrates\.io|\bdeb\.debian\.org|repo1?\.maven\.(apache\.)?org`)

// foreignParts are texts. Each match of foreign contains at least one of the texts. Few files contain any, and a search
// for these texts is much faster than a search for foreign.
var foreignParts = []string{
	"work/", "root/", "/home/", "proxy.golang", "sum.golang", "npmjs", "pypi.", "crates.",
	"debian.", "maven.",
}

// MachinePaths reports paths of a particular machine and hosts of package registries, anywhere in the repository.
func MachinePaths(t *Tree) (found []Finding) {
	for name, text := range t.Texts {
		if !slices.ContainsFunc(foreignParts, func(part string) bool { return strings.Contains(text, part) }) {
			continue
		}
		for _, at := range foreign.FindAllStringIndex(text, -1) {
			found = append(found, Finding{
				name, 1 + strings.Count(text[:at[0]], "\n"),
				text[at[0]:at[1]] + ": the path of one machine or the host of a registry: leave it out",
			})
		}
	}
	return found
}

// Programs reports compiled programs in the tree, because a commit would add them to the history permanently.
func Programs(t *Tree) (found []Finding) {
	for _, name := range t.Programs {
		found = append(found, Finding{Path: name, Text: "is a program: remove it, and build into dist/"})
	}
	return found
}

var (
	linterLine = regexp.MustCompile(`(?m)^    - ([a-z]+)( # \S.*)?$`)
	enabled    = regexp.MustCompile(`(?s)\n  enable:\n(.*?)\n\n`)
)

// LinterReasons reports each enabled linter that has no reason next to it.
func LinterReasons(t *Tree) (found []Finding) {
	const name = ".golangci.yml"
	list := enabled.FindString(t.Texts[name])
	if list == "" {
		return []Finding{{Path: name, Text: "has no list of linters"}}
	}
	for _, m := range linterLine.FindAllStringSubmatch(list, -1) {
		if m[2] == "" {
			found = append(found, Finding{Path: name, Text: m[1] + " has no reason next to it"})
		}
	}
	return found
}

var (
	directive     = regexp.MustCompile(`(?m)//nolint:([a-z0-9,]+)`)
	enabledLinter = regexp.MustCompile(`(?m)^    - ([a-z0-9]+)`)
)

// UnusedNolint reports each //nolint comment that names a linter that is not enabled: such a comment suppresses
// nothing, and misleads people about the rules of the repository.
func UnusedNolint(t *Tree) (found []Finding) {
	running := submatches(enabledLinter, enabled.FindString(t.Texts[".golangci.yml"]))
	for _, p := range t.Packages {
		for name, file := range p.Files {
			for _, group := range file.Comments {
				for _, c := range group.List {
					m := directive.FindStringSubmatch(c.Text)
					if m == nil || !strings.HasPrefix(c.Text, m[0]) {
						continue
					}
					for linter := range strings.SplitSeq(m[1], ",") {
						if !running[linter] {
							found = append(found, Finding{name, t.line(c.Pos()), "nolint:" + linter + ": that linter does not run"})
						}
					}
				}
			}
		}
	}
	return found
}

var (
	goTestRun = regexp.MustCompile(`\bgo test\b[^\n` + "`" + `]*? -run[= ]'?([\w|^$()/]+)`)
	testFunc  = regexp.MustCompile(`(?m)^func (Test\w+|Fuzz\w+)\(`)
)

// RunPatterns reports parts of the patterns of `go test -run` in a document, in the Makefile or in a Go file. Parts are
// separated by "|". It reports each part that no test of the repository has in its name: the command would succeed
// without running the test that this part names.
func RunPatterns(t *Tree) (found []Finding) {
	var tests []string
	for name, text := range t.Texts {
		if isTest(name) {
			tests = append(tests, slices.Collect(maps.Keys(submatches(testFunc, text)))...)
		}
	}
	for name, text := range t.Texts {
		if ext := path.Ext(name); ext != ".md" && ext != ".go" && name != "Makefile" {
			continue
		}
		for _, at := range goTestRun.FindAllStringSubmatchIndex(text, -1) {
			for part := range strings.SplitSeq(text[at[2]:at[3]], "|") {
				part, _, _ = strings.Cut(strings.Trim(part, "^$()"), "/")
				if part != "" && !slices.ContainsFunc(tests, func(test string) bool { return strings.Contains(test, part) }) {
					found = append(found, Finding{
						name, 1 + strings.Count(text[:at[0]], "\n"),
						"-run " + part + ": no test has this in its name",
					})
				}
			}
		}
	}
	return found
}
