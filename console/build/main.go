// Command build bundles the console: it compiles console/src into the files that a browser loads, and writes them to
// console/bundle.zip, which is committed. With -check it writes no archive, and fails if the committed archive differs
// or if sources import each other in a cycle.
//
// It does not check types (`make lint-console` does), and it does not serve the console (the package functions/console
// does).
//
// Read main.go first. budget.go limits how much a browser loads, operations.go generates the console's list of API
// operations, licenses.go collects the licenses of npm packages, imports.go finds cycles of imports, and output.go
// writes and compares the archive. The reasons for the archive are in
// docs/decisions/0076-the-bundle-of-the-console-is-committed.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

func main() {
	folder := flag.String("folder", "console", "the console's folder")
	document := flag.String("openapi", filepath.Join("functions", "platform", "openapi.json"),
		"the OpenAPI document of the API that the console calls")
	generate := flag.Bool("generate", false,
		"only write the sources that are generated from the OpenAPI document, for a type check")
	check := flag.Bool("check", false, "write no bundle, and fail if the sources do not build the committed one, or "+
		"import each other in a cycle")
	flag.Parse()
	if err := run(context.Background(), *folder, *document, *generate, *check); err != nil {
		fmt.Fprintln(os.Stderr, "console:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, folder, document string, generateOnly, checkOnly bool) error {
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
	newArchive, err := archive(files)
	if err != nil {
		return err
	}
	name := filepath.Join(folder, bundleName)
	if checkOnly {
		return errors.Join(checkImports(ctx, filepath.Join(folder, compilerName), folder), compare(name, newArchive))
	}
	return replace(name, newArchive)
}

// file is a file of the bundle.
type file struct {
	name string
	body []byte
}

// bundle compiles the sources into the files of the bundle, and returns them with their sizes. The same sources always
// produce the same files.
func bundle(folder string) ([]file, sizes, error) {
	root, err := filepath.Abs(folder)
	if err != nil {
		return nil, sizes{}, fmt.Errorf("find %s: %w", folder, err)
	}
	result := api.Build(api.BuildOptions{
		AbsWorkingDir: root,
		// With Splitting, main contains only the code that the first page needs. Code that sources load with import() is
		// in separate scripts.
		EntryPointsAdvanced: []api.EntryPoint{
			{InputPath: "src/main.tsx", OutputPath: "main"},
			{InputPath: "src/icon.svg", OutputPath: "icon"},
		},
		Outdir: filepath.Join(root, "bundle"), // esbuild needs a folder, but writes nothing to it
		// The names of the files contain a digest of the paths of the sources. Without this option, the names would
		// change if node_modules is a symbolic link.
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
		messages := api.FormatMessages(result.Errors, api.FormatMessagesOptions{})
		return nil, sizes{}, fmt.Errorf("bundle the sources (npm ci in %s installs the packages that they import):\n%s",
			folder, strings.Join(messages, ""))
	}
	var files []file
	for _, f := range result.OutputFiles {
		files = append(files, file{filepath.Base(f.Path), f.Contents})
	}
	assets, err := firstLoad(result.Metafile)
	if err != nil {
		return nil, sizes{}, err
	}
	licenseFile, err := licenses(root, result.Metafile)
	if err != nil {
		return nil, sizes{}, err
	}
	files, assets.licenses = append(files, licenseFile), licenseFile.name
	index, err := renderPage(filepath.Join(root, "src", "index.html"), assets)
	if err != nil {
		return nil, sizes{}, err
	}
	files = append(files, file{"index.html", index})
	return measure(files, assets)
}
