// Command build bundles the console: it makes of console/src what a browser loads, in console/dist.
//
// What it is not: a type checker, which is `make lint-console`, nor what serves the console, which is the package console.
//
// Read main.go first; budget.go says how much a browser may be asked to load, operations.go what the console knows of
// the API, licenses.go what is said of others' work, output.go how files are written so that a build that is killed leaves the last one as it was.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

func main() {
	folder := flag.String("folder", "console", "the console's folder")
	document := flag.String("openapi", filepath.Join("functions", "platform", "openapi.json"), "the description of the API that it calls")
	generate := flag.Bool("generate", false, "only write what is generated from the description, which a type check needs")
	flag.Parse()
	if err := run(*folder, *document, *generate); err != nil {
		fmt.Fprintln(os.Stderr, "console:", err)
		os.Exit(1)
	}
}

func run(folder, document string, generateOnly bool) error {
	if err := writeOperations(filepath.Join(folder, "generated"), document); err != nil {
		return err
	}
	if generateOnly {
		return nil
	}
	files, sizes, err := bundle(folder)
	if err != nil {
		return err
	}
	fmt.Print(sizes)
	if err := sizes.check(); err != nil {
		return err
	}
	return write(filepath.Join(folder, "dist"), files)
}

// file is one of dist, by its name there.
type file struct {
	name string
	body []byte
}

// bundle compiles the sources into the files of dist: index.html last, which is what names the others. The same
// sources always make the same files.
func bundle(folder string) ([]file, sizes, error) {
	root, err := filepath.Abs(folder)
	if err != nil {
		return nil, sizes{}, fmt.Errorf("find %s: %w", folder, err)
	}
	result := api.Build(api.BuildOptions{
		AbsWorkingDir: root,
		// A script of its own, so that what shows the page first is not also what is loaded when it is signed in.
		EntryPointsAdvanced: []api.EntryPoint{{InputPath: "src/main.tsx", OutputPath: "main"}, {InputPath: "src/icon.svg", OutputPath: "icon"}},
		Outdir:              filepath.Join(root, "dist"),
		Bundle:              true,
		Splitting:           true,
		Format:              api.FormatESModule,
		Target:              api.ES2022,
		JSX:                 api.JSXAutomatic,
		JSXImportSource:     "preact",
		EntryNames:          "[name]-[hash]",
		ChunkNames:          "chunk-[hash]",
		AssetNames:          "[name]-[hash]",
		MinifyWhitespace:    true,
		MinifyIdentifiers:   true,
		MinifySyntax:        true,
		LegalComments:       api.LegalCommentsNone,
		Loader:              map[string]api.Loader{".svg": api.LoaderCopy},
		Metafile:            true,
		LogLevel:            api.LogLevelSilent,
	})
	if len(result.Errors) > 0 {
		said := api.FormatMessages(result.Errors, api.FormatMessagesOptions{})
		return nil, sizes{}, fmt.Errorf("bundle the sources (npm ci in %s installs what they import):\n%s", folder, strings.Join(said, ""))
	}
	var files []file
	for _, f := range result.OutputFiles {
		files = append(files, file{filepath.Base(f.Path), f.Contents})
	}
	first, err := firstLoad(result.Metafile)
	if err != nil {
		return nil, sizes{}, err
	}
	others, err := licenses(root, result.Metafile)
	if err != nil {
		return nil, sizes{}, err
	}
	files, first.licenses = append(files, others), others.name
	index, err := page(filepath.Join(root, "src", "index.html"), first)
	if err != nil {
		return nil, sizes{}, err
	}
	files = append(files, file{"index.html", index})
	return measure(files, first)
}
