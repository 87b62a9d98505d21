package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// compilerName is the path of the TypeScript compiler in the console's folder.
const compilerName = "node_modules/typescript/bin/tsc"

// checkImports returns an error if sources import each other in a cycle. No file of a cycle can be read, tested or
// moved without the other files, and its code can use a constant before the constant has a value.
func checkImports(ctx context.Context, compiler, folder string) error {
	imports, err := readImports(ctx, compiler, folder)
	if err != nil {
		return err
	}
	if found := cycles(imports); len(found) > 0 {
		return fmt.Errorf("sources import each other in a cycle: move what they share to another file, or pass it as an "+
			"argument:\n%s", strings.Join(found, "\n"))
	}
	return nil
}

// importLine matches a line of the TypeScript compiler's output that names a file that imports another file.
var importLine = regexp.MustCompile(`^  Imported via .* from file '(src/[^']+)'`)

// readImports returns the sources that each source in a folder imports. The TypeScript compiler lists them, because
// esbuild's description of the bundle does not contain imports of types. compiler is the path of tsc.
func readImports(ctx context.Context, compiler, folder string) (map[string][]string, error) {
	compiler, err := filepath.Abs(compiler)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", compiler, err)
	}
	//nolint:gosec // G204: the console's own compiler
	cmd := exec.CommandContext(ctx, "node", compiler, "--project", ".", "--noCheck", "--explainFiles")
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("list the imports of sources with tsc: %w\n%.1000s", err, out)
	}
	imports := map[string][]string{}
	// The compiler prints the path of each file, and then a line for each file that imports this file.
	var file string
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, " ") {
			file = strings.TrimSpace(line)
		} else if match := importLine.FindStringSubmatch(line); match != nil && strings.HasPrefix(file, "src/") {
			imports[match[1]] = append(imports[match[1]], file)
		}
	}
	if len(imports) == 0 {
		return nil, errors.New("tsc --explainFiles lists no import of a source: adapt readImports to its output")
	}
	return imports, nil
}

// cycles returns, for each source in a cycle, the shortest cycle through this source. A returned cycle begins with the
// source whose path sorts first.
func cycles(imports map[string][]string) []string {
	found := map[string]bool{}
	for source := range imports {
		if cycle := cycleThrough(source, imports); cycle != nil {
			first := slices.Index(cycle, slices.Min(cycle))
			found[strings.Join(slices.Concat(cycle[first:], cycle[:first+1]), " → ")] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// cycleThrough returns the sources of the shortest cycle that begins with a source, or nil if there is none.
func cycleThrough(source string, imports map[string][]string) []string {
	seen := map[string]bool{}
	for queue := [][]string{{source}}; len(queue) > 0; queue = queue[1:] {
		path := queue[0]
		for _, next := range imports[path[len(path)-1]] {
			if next == source {
				return path
			}
			if !seen[next] {
				seen[next] = true
				queue = append(queue, append(slices.Clone(path), next))
			}
		}
	}
	return nil
}
