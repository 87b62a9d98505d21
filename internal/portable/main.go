// Command portable checks the types of packages as other systems compile them: portable SYSTEM... -- PACKAGE...
//
// A system is a GOOS and a GOARCH, such as windows-amd64. The command reads the sources of the packages, of their tests
// and of everything that they import. It takes a twentieth of the time of a compilation, finds each identifier that is
// missing on a system, and writes nothing. It does not find errors that only a compiler finds, such as errors in
// assembler: `make cross` finds them. There is only this file.
package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	systems, patterns, err := arguments(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "portable:", err)
		os.Exit(2)
	}
	failed := false
	for _, system := range systems {
		found, err := check(".", system, patterns)
		for _, text := range found {
			fmt.Fprintf(os.Stderr, "%s: %s\n", system, text)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "portable: %s: %v\n", system, err)
		}
		failed = failed || err != nil || len(found) > 0
	}
	if failed {
		os.Exit(1)
	}
}

// arguments returns the systems before "--" and the packages after it.
func arguments(args []string) (systems, patterns []string, err error) {
	at := slices.Index(args, "--")
	if at <= 0 || at == len(args)-1 {
		return nil, nil, errors.New("usage: portable SYSTEM... -- PACKAGE..., for example windows-amd64 -- ./local")
	}
	for _, system := range args[:at] {
		if goos, arch, ok := strings.Cut(system, "-"); !ok || goos == "" || arch == "" {
			return nil, nil, fmt.Errorf("%q is not a system: write a GOOS and a GOARCH, such as windows-amd64", system)
		}
	}
	return args[:at], args[at+1:], nil
}

// check returns the errors in packages, their tests and everything that they import, as a system compiles them. dir is a folder of the
// module.
func check(dir, system string, patterns []string) (found []string, err error) {
	goos, arch, _ := strings.Cut(system, "-")
	roots, err := packages.Load(&packages.Config{
		Dir: dir, Tests: true, Env: append(os.Environ(), "GOOS="+goos, "GOARCH="+arch),
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedDeps | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedModule,
	}, patterns...)
	if err != nil {
		return nil, fmt.Errorf("load packages: %w", err)
	}
	for p := range packages.Postorder(roots) {
		for _, e := range p.Errors {
			found = append(found, e.Error())
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}
