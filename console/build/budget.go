package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/andybalholm/brotli"
)

// The limits of what a browser loads, in bytes compressed with Brotli: before it shows the first page, and for all pages.
const (
	firstBytes = 90_000
	allBytes   = 300_000
)

// load lists the files that a browser needs for the first page, besides index.html.
type load struct {
	script, style, icon string
	licenses            string   // linked from the page, and not loaded
	imports             []string // other scripts that the first script imports
}

// firstLoad returns the files of the first page, from esbuild's description of the bundle.
func firstLoad(metafile string) (load, error) {
	type output struct {
		EntryPoint string `json:"entryPoint"`
		CSSBundle  string `json:"cssBundle"`
		Imports    []struct {
			Path string `json:"path"`
			Kind string `json:"kind"`
		} `json:"imports"`
	}
	var made struct {
		Outputs map[string]output `json:"outputs"`
	}
	if err := json.Unmarshal([]byte(metafile), &made); err != nil {
		return load{}, fmt.Errorf("read esbuild's description of the bundle: %w", err)
	}
	var out load
	var entry string
	for name, o := range made.Outputs {
		switch o.EntryPoint {
		case "src/main.tsx":
			entry, out.script, out.style = name, path.Base(name), path.Base(o.CSSBundle)
		case "src/icon.svg":
			// esbuild also writes a script for it, which contains only the name of the copied picture.
		}
		if path.Ext(name) == ".svg" {
			out.icon = path.Base(name)
		}
	}
	if entry == "" || out.style == "." || out.icon == "" {
		return load{}, fmt.Errorf("the bundle has no script, no style or no icon: %+v", out)
	}
	seen := map[string]bool{entry: true}
	for queue := []string{entry}; len(queue) > 0; queue = queue[1:] {
		for _, i := range made.Outputs[queue[0]].Imports {
			if i.Kind == "import-statement" && !seen[i.Path] {
				seen[i.Path] = true
				out.imports = append(out.imports, path.Base(i.Path))
				queue = append(queue, i.Path)
			}
		}
	}
	slices.Sort(out.imports)
	return out, nil
}

// page returns index.html with the names of files. The mark {{assets}} stays in it: the server replaces it by the path of the files.
func page(name string, first load) ([]byte, error) {
	source, err := os.ReadFile(name) //nolint:gosec // it is the console's own page
	if err != nil {
		return nil, fmt.Errorf("read the page: %w", err)
	}
	parsed, err := template.New("index").Delims("[[", "]]").Parse(string(source))
	if err != nil {
		return nil, fmt.Errorf("read the page: %w", err)
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, map[string]any{"Script": first.script, "Style": first.style, "Icon": first.icon, "Licenses": first.licenses, "Imports": first.imports}); err != nil {
		return nil, fmt.Errorf("fill in the page: %w", err)
	}
	return out.Bytes(), nil
}

// sizes are the compressed sizes of the files in bytes.
type sizes struct {
	of         map[string]int
	first, all int
}

// measure adds a Brotli copy of each file, with the suffix .br, and returns the sizes of the copies.
func measure(files []file, first load) ([]file, sizes, error) {
	s := sizes{of: map[string]int{}}
	needed := append([]string{"index.html", first.script, first.style, first.icon}, first.imports...)
	var out []file
	for _, f := range files {
		var small bytes.Buffer
		w := brotli.NewWriterLevel(&small, brotli.BestCompression)
		if _, err := w.Write(f.body); err != nil {
			return nil, sizes{}, fmt.Errorf("compress %s: %w", f.name, err)
		}
		if err := w.Close(); err != nil {
			return nil, sizes{}, fmt.Errorf("compress %s: %w", f.name, err)
		}
		out = append(out, file{f.name + ".br", small.Bytes()}, f)
		s.of[f.name] = small.Len()
		s.all += small.Len()
		if slices.Contains(needed, f.name) {
			s.first += small.Len()
		}
	}
	return out, s, nil
}

func (s sizes) String() string {
	var out strings.Builder
	names := make([]string, 0, len(s.of))
	for name := range s.of {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&out, "%8.1f kB  %s\n", float64(s.of[name])/1000, name)
	}
	fmt.Fprintf(&out, "%8.1f kB  first load, of at most %d kB\n%8.1f kB  all, of at most %d kB\n",
		float64(s.first)/1000, firstBytes/1000, float64(s.all)/1000, allBytes/1000)
	return out.String()
}

func (s sizes) check() error {
	if s.first > firstBytes {
		return fmt.Errorf("the first page loads %d bytes, the limit is %d: load code that it does not need with import()", s.first, firstBytes)
	}
	if s.all > allBytes {
		return fmt.Errorf("all pages load %d bytes, the limit is %d: remove code or a package", s.all, allBytes)
	}
	return nil
}
