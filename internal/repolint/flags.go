package repolint

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// buildFlag matches a flag or a variable that changes what the go command compiles for every package, and not only how
// it links a program. An environment variable matches only where the text sets it.
var buildFlag = regexp.MustCompile(
	`(?:^|[\s"'=])(-(?:trimpath|tags|modfile|overlay|race|msan|asan|gcflags|asmflags|installsuffix|buildmode|pgo)\b)|` +
		`\b((?:CGO_ENABLED|GOFLAGS|GOEXPERIMENT|GOAMD64|GOARM64|GOWORK) *:?=)`)

// ownFlags contains the flags that each listed Go file is allowed to contain. The comment of each file says why.
var ownFlags = map[string][]string{
	// the pages of the manual need cobra's generator, so two packages are compiled twice
	"cmd/gatewright/version_test.go":       {"-tags"},
	"internal/planted/selectable.go":       {"-overlay"}, // planted defects replace files of single packages
	"internal/planted/run.go":              {"-overlay"}, // the same
	"shared/thirdparty/thirdparty_test.go": {"-overlay"}, // adds the tests of a library to the copy of the library
	"infra/image/sbom.go":                  {"-tags"},    // reads the flag that a binary was built with
	"internal/newgroup/checklist_test.go":  {"GOFLAGS="}, // adds -v, which prints the names of tests
	// adds -debug-actiongraph, which writes the time of compiling each package
	"internal/bench/checkout.go": {"GOFLAGS="},
}

// makeFlagLines matches the lines of the Makefile that can have such a flag: the declarations of the flags, the
// commands for the race detector, which needs cgo, the command for the manual, and comments.
var makeFlagLines = regexp.MustCompile(
	`^(BUILD_FLAGS := -trimpath -tags=lambda\.norpc|export CGO_ENABLED := 0|export GOFLAGS := .*|` +
		`race: export CGO_ENABLED := 1|\t+go test -race .*|.*&& go test -race .*|` +
		`.*\bgo run -tags=man \./cmd/gatewright .*|#.*)$`)

// BuildFlags reports other build flags than those that the Makefile declares for all commands. With other flags, the go
// command would compile packages again that an earlier command has compiled. Other flags in a Go file need an entry in
// ownFlags.
func BuildFlags(t *Tree) (found []Finding) {
	for name, text := range t.Texts {
		if base := path.Base(name); base != "Makefile" && path.Ext(name) != ".sh" && !strings.HasPrefix(name, ".ci/") {
			continue
		}
		for i, line := range strings.Split(text, "\n") {
			if name == "Makefile" && makeFlagLines.MatchString(strings.TrimLeft(line, "@")) {
				continue
			}
			for _, flag := range flags(line) {
				found = append(found, Finding{name, i + 1, flag + ": the Makefile declares the build flags once, for all commands"})
			}
		}
	}
	for _, p := range t.Packages {
		if p.Dir == "internal/repolint" || p.Dir == "shared/testing/gobuild" {
			continue // gobuild declares the flags; the tests of both packages have refused flags as examples
		}
		for name, file := range p.Files {
			ast.Inspect(file, func(n ast.Node) bool {
				literal, ok := n.(*ast.BasicLit)
				if !ok || literal.Kind != token.STRING {
					return true
				}
				text, err := strconv.Unquote(literal.Value)
				if err != nil {
					return true
				}
				for _, flag := range flags(text) {
					if !slices.Contains(ownFlags[name], flag) {
						found = append(found, Finding{name, t.line(literal.Pos()), flag + ": use shared/testing/gobuild, or let the " +
							"command inherit the environment"})
					}
				}
				return true
			})
		}
	}
	return found
}

// flags returns the build flags in a text.
func flags(text string) (all []string) {
	for _, m := range buildFlag.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1]+m[2])
	}
	return all
}
