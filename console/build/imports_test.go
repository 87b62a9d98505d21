package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestImportCyclesAreFound checks that a cycle of each kind of import is reported. Sources without an import, and
// sources with a syntax error, must be errors too.
func TestImportCyclesAreFound(t *testing.T) {
	needModules(t)
	const config = `{"compilerOptions": {"module": "esnext", "moduleResolution": "bundler", "lib": ["es5"],
		"types": [], "noEmit": true}, "include": ["src"]}`
	for _, tt := range []struct {
		name    string
		sources map[string]string
		want    string // a part of the error
	}{
		{"cycle of each kind of import", map[string]string{
			"main.ts": `import { one } from "./values/one"; import { pages } from "./later/pages";
				export const main = [one, pages];`,
			"values/one.ts": `import { two } from "./two"; import { base } from "../base";
				export const one = () => [two, base];`,
			"values/two.ts": `import { one } from "./one"; import { base } from "../base";
				export const two = () => [one, base];`,
			"types/one.ts":   `import { two } from "./two"; export interface One { name: string } export const one = two;`,
			"types/two.ts":   `import type { One } from "./one"; export const two: One = { name: "two" };`,
			"later/pages.ts": `export const pages = [() => import("./a")];`,
			"later/a.ts":     `import { pages } from "./pages"; export default () => pages.length;`,
			"again/one.ts":   `export { two as one } from "./two";`,
			"again/two.ts":   `export * from "./three"; export const two = 2;`,
			"again/three.ts": `import { one } from "./one"; export const three = () => one;`,
			"base.ts":        `export const base = 1;`,
		}, ":\nsrc/again/one.ts → src/again/two.ts → src/again/three.ts → src/again/one.ts\n" +
			"src/later/a.ts → src/later/pages.ts → src/later/a.ts\n" +
			"src/types/one.ts → src/types/two.ts → src/types/one.ts\n" +
			"src/values/one.ts → src/values/two.ts → src/values/one.ts"},
		{"no cycle", map[string]string{
			"one.ts": `import { two } from "./two"; export const one = two;`,
			"two.ts": `export const two = 2;`,
		}, ""},
		{"no import", map[string]string{"one.ts": `export const one = 1;`}, "lists no import of a source"},
		{"syntax error", map[string]string{"one.ts": `export const = 1;`}, "src/one.ts(1,14): error TS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			folder := t.TempDir()
			writeTestFile(t, filepath.Join(folder, "tsconfig.json"), config)
			for name, source := range tt.sources {
				writeTestFile(t, filepath.Join(folder, "src", filepath.FromSlash(name)), source)
			}
			err := checkImports(t.Context(), filepath.Join("..", compilerName), folder)
			if tt.want == "" && err != nil {
				t.Errorf("checkImports() = %v, want no error", err)
			}
			if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("checkImports() = %v, want an error with %q", err, tt.want)
			}
		})
	}
}

// TestEachSourceInACycleIsReported checks that each source in a cycle is reported with the shortest cycle through it,
// in the same order every time.
func TestEachSourceInACycleIsReported(t *testing.T) {
	for _, tt := range []struct {
		name    string
		imports string // a line for each source, with the sources that it imports
		want    []string
	}{
		{"two ways to one source", "a b c\nb d\nc d", nil},
		{"source that imports itself", "a a", []string{"a → a"}},
		{"two cycles through one source", "b a\na b c\nc a", []string{"a → b → a", "a → c → a"}},
		{"one cycle inside another", "a b\nb c\nc b a", []string{"a → b → c → a", "b → c → b"}},
		{"sources before and after a cycle", "a b\nb c\nc b d", []string{"b → c → b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			imports := map[string][]string{}
			for line := range strings.Lines(tt.imports) {
				names := strings.Fields(line)
				imports[names[0]] = names[1:]
			}
			if diff := cmp.Diff(tt.want, cycles(imports)); diff != "" {
				t.Errorf("cycles(%q) (-want +got):\n%s", slices.Collect(strings.Lines(tt.imports)), diff)
			}
		})
	}
}
