// Command build bundles the console: it compiles console/src into the files that a browser loads, and writes them to
// console/bundle.zip, which is committed. With -check it writes no archive, and fails if the committed one differs.
//
// It does not check types (`make lint-console` does), and it does not serve the console (the package functions/console does).
//
// Read main.go first. budget.go limits how much a browser loads, operations.go generates what the console knows about the API,
// licenses.go collects the licenses of npm packages, and output.go writes and compares the archive. The reasons are in
// docs/decisions/0076-the-bundle-of-the-console-is-committed.md.
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
	document := flag.String("openapi", filepath.Join("functions", "platform", "openapi.json"), "the OpenAPI document of the API that the console calls")
	generate := flag.Bool("generate", false, "only write the sources that are generated from the OpenAPI document, for a type check")
	check := flag.Bool("check", false, "write no bundle, and fail if the sources do not build the committed one")
	flag.Parse()
	if err := run(*folder, *document, *generate, *check); err != nil {
		fmt.Fprintln(os.Stderr, "console:", err)
		os.Exit(1)
	}
}

func run(folder, document string, generateOnly, checkOnly bool) error {
	if err := writeOperations(folder, document); err != nil {
		return err
	}
	if generateOnly {
		return nil
	}
	files, sizes, err := bundle(folder)
	if err != nil {
		return err
	}
	if !checkOnly {
		fmt.Print(sizes)
	}
	if err := sizes.check(); err != nil {
		return err
	}
	made, err := archive(files)
	if err != nil {
		return err
	}
	name := filepath.Join(folder, bundleName)
	if checkOnly {
		return compare(name, made)
	}
	return replace(name, made)
}

// file is a file of the bundle.
type file struct {
	name string
	body []byte
}

// bundle compiles the sources into the files of the bundle. The same sources always make the same files.
func bundle(folder string) ([]file, sizes, error) {
	root, err := filepath.Abs(folder)
	if err != nil {
		return nil, sizes{}, fmt.Errorf("find %s: %w", folder, err)
	}
	result := api.Build(api.BuildOptions{
		AbsWorkingDir: root,
		// A script of its own, so that what shows the page first is not also what is loaded when it is signed in.
		EntryPointsAdvanced: []api.EntryPoint{{InputPath: "src/main.tsx", OutputPath: "main"}, {InputPath: "src/icon.svg", OutputPath: "icon"}},
		Outdir:              filepath.Join(root, "bundle"), // esbuild needs a folder, but writes nothing to it
		// File names contain a digest of the paths of sources. Without this, a node_modules that is a symbolic link would change them.
		PreserveSymlinks:  true,
		Bundle:            true,
		Splitting:         true,
		Format:            api.FormatESModule,
		Target:            api.ES2022,
		JSX:               api.JSXAutomatic,
		JSXImportSource:   "preact",
		EntryNames:        "[name]-[hash]",
		ChunkNames:        "chunk-[hash]",
		AssetNames:        "[name]-[hash]",
		MinifyWhitespace:  true,
		MinifyIdentifiers: true,
		MinifySyntax:      true,
		LegalComments:     api.LegalCommentsNone,
		Loader:            map[string]api.Loader{".svg": api.LoaderCopy},
		Metafile:          true,
		LogLevel:          api.LogLevelSilent,
	})
	if len(result.Errors) > 0 {
		said := api.FormatMessages(result.Errors, api.FormatMessagesOptions{})
		return nil, sizes{}, fmt.Errorf("bundle the sources (npm ci in %s installs the packages that they import):\n%s", folder, strings.Join(said, ""))
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
