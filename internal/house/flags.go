package house

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// buildFlag matches a flag or a variable that changes what the go command compiles for every package, and not only how it
// links a program. Environment variables match where they get a value.
var buildFlag = regexp.MustCompile(`(?:^|[\s"'=])(-(?:trimpath|tags|modfile|overlay|race|msan|asan|gcflags|asmflags|installsuffix|buildmode|pgo)\b)|\b((?:CGO_ENABLED|GOFLAGS|GOEXPERIMENT|GOAMD64|GOARM64|GOWORK) *:?=)`)

// ownFlags are the Go files that may have such a flag, each with its reason.
var ownFlags = map[string][]string{
	"cmd/gatewright/version_test.go":      {"-tags"},    // the manual's pages need cobra's generator: two packages are compiled twice
	"internal/guards/switched.go":         {"-overlay"}, // planted defects replace files of single packages
	"internal/guards/run.go":              {"-overlay"}, // likewise
	"thirdparty/thirdparty_test.go":       {"-overlay"}, // adds a library's own tests to its copy
	"infra/image/bill.go":                 {"-tags"},    // reads the flag that a binary was built with
	"internal/newgroup/checklist_test.go": {"GOFLAGS="}, // adds -v, which prints the names of tests
	"internal/bench/checkout.go":          {"GOFLAGS="}, // adds -debug-actiongraph, which writes what compiling each package takes
}

// makeDeclares matches the lines of the Makefile that may have such a flag: the declarations, the race detector, which
// needs cgo, and the manual.
var makeDeclares = regexp.MustCompile(`^(BUILD_FLAGS := -trimpath -tags=lambda\.norpc|export CGO_ENABLED := 0|export GOFLAGS := .*|race: export CGO_ENABLED := 1|\t+go test -race .*|.*&& go test -race .*|.*\bgo run -tags=man \./cmd/gatewright .*|#.*)$`)

// BuildFlags refuses flags of the go command that would compile packages again which another command has compiled
// already: the Makefile declares one set for all, and others only where ownFlags has the reason.
func BuildFlags(t *Tree) (found []Finding) {
	for name, text := range t.Texts {
		if base := path.Base(name); base != "Makefile" && path.Ext(name) != ".sh" && !strings.HasPrefix(name, ".ci/") {
			continue
		}
		for i, line := range strings.Split(text, "\n") {
			if name == "Makefile" && makeDeclares.MatchString(strings.TrimLeft(line, "@")) {
				continue
			}
			for _, flag := range flags(line) {
				found = append(found, Finding{name, i + 1, flag + ": the Makefile declares the build flags once, for all commands"})
			}
		}
	}
	for _, p := range t.Packages {
		if p.Dir == "internal/house" || p.Dir == "internal/gobuild" {
			continue // one declares the flags for Go programs, and the tests of both show what is refused
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
						found = append(found, Finding{name, t.line(literal.Pos()), flag + ": use internal/gobuild, or let the command inherit the environment"})
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
