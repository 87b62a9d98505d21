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

// The maximum sizes of the files that a browser loads for the first page, and of all files together. The sizes are in
// bytes after compression with Brotli.
const (
	maxFirstLoadBytes = 90_000
	maxTotalBytes     = 300_000
)

// pageAssets lists the files that a browser needs for the first page, in addition to index.html.
type pageAssets struct {
	script, style, icon string
	licenses            string   // linked from the page, and not loaded
	imports             []string // other scripts that the first script imports, directly or indirectly
}

// firstLoad returns the files of the first page. metafile is esbuild's description of the bundle.
func firstLoad(metafile string) (pageAssets, error) {
	type output struct {
		EntryPoint string `json:"entryPoint"`
		CSSBundle  string `json:"cssBundle"`
		Imports    []struct {
			Path string `json:"path"`
			Kind string `json:"kind"`
		} `json:"imports"`
	}
	var metadata struct {
		Outputs map[string]output `json:"outputs"`
	}
	if err := json.Unmarshal([]byte(metafile), &metadata); err != nil {
		return pageAssets{}, fmt.Errorf("read esbuild's description of the bundle: %w", err)
	}
	var out pageAssets
	var entry string
	for name, o := range metadata.Outputs {
		switch o.EntryPoint {
		case "src/main.tsx":
			entry, out.script, out.style = name, path.Base(name), path.Base(o.CSSBundle)
		case "src/icon.svg":
			// Ignore the script that esbuild also writes for the icon. It contains only the name of the copied icon.
		}
		if path.Ext(name) == ".svg" {
			out.icon = path.Base(name)
		}
	}
	if entry == "" || out.style == "." || out.icon == "" {
		return pageAssets{}, fmt.Errorf("the bundle has no script, no style or no icon: %+v", out)
	}
	seen := map[string]bool{entry: true}
	for queue := []string{entry}; len(queue) > 0; queue = queue[1:] {
		for _, i := range metadata.Outputs[queue[0]].Imports {
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

// renderPage returns index.html with the names of the files. It keeps the placeholder {{assets}}, which the server
// replaces with the path of the files.
func renderPage(name string, assets pageAssets) ([]byte, error) {
	source, err := os.ReadFile(name) //nolint:gosec // the console's own page
	if err != nil {
		return nil, fmt.Errorf("read the page: %w", err)
	}
	parsed, err := template.New("index").Delims("[[", "]]").Parse(string(source))
	if err != nil {
		return nil, fmt.Errorf("read the page: %w", err)
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, map[string]any{
		"Script": assets.script, "Style": assets.style, "Icon": assets.icon,
		"Licenses": assets.licenses, "Imports": assets.imports,
	}); err != nil {
		return nil, fmt.Errorf("fill in the page: %w", err)
	}
	return out.Bytes(), nil
}

// sizes are the compressed sizes in bytes: of each file, of the files for the first page, and of all files.
type sizes struct {
	byFile           map[string]int
	firstLoad, total int
}

// measure returns the files with a Brotli copy of each, which has the suffix .br. It also returns the sizes of the
// copies.
func measure(files []file, assets pageAssets) ([]file, sizes, error) {
	s := sizes{byFile: map[string]int{}}
	firstFiles := append([]string{"index.html", assets.script, assets.style, assets.icon}, assets.imports...)
	var out []file
	for _, f := range files {
		var compressed bytes.Buffer
		w := brotli.NewWriterLevel(&compressed, brotli.BestCompression)
		if _, err := w.Write(f.body); err != nil {
			return nil, sizes{}, fmt.Errorf("compress %s: %w", f.name, err)
		}
		if err := w.Close(); err != nil {
			return nil, sizes{}, fmt.Errorf("compress %s: %w", f.name, err)
		}
		out = append(out, file{f.name + ".br", compressed.Bytes()}, f)
		s.byFile[f.name] = compressed.Len()
		s.total += compressed.Len()
		if slices.Contains(firstFiles, f.name) {
			s.firstLoad += compressed.Len()
		}
	}
	return out, s, nil
}

// String returns a table of the sizes.
func (s sizes) String() string {
	var out strings.Builder
	names := make([]string, 0, len(s.byFile))
	for name := range s.byFile {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&out, "%8.1f kB  %s\n", float64(s.byFile[name])/1000, name)
	}
	fmt.Fprintf(&out, "%8.1f kB  first load, of at most %d kB\n%8.1f kB  all, of at most %d kB\n",
		float64(s.firstLoad)/1000, maxFirstLoadBytes/1000, float64(s.total)/1000, maxTotalBytes/1000)
	return out.String()
}

// check returns an error if a size is over its limit.
func (s sizes) check() error {
	if s.firstLoad > maxFirstLoadBytes {
		return fmt.Errorf("the first page loads %d bytes, the limit is %d: load code that it does not need with import()",
			s.firstLoad, maxFirstLoadBytes)
	}
	if s.total > maxTotalBytes {
		return fmt.Errorf("all files have %d bytes, the limit is %d: remove code or a package", s.total, maxTotalBytes)
	}
	return nil
}
