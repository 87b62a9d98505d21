// Command licenses writes the license texts of everything that binaries of the product link, as one text file:
//
//	go run ./packaging/licenses -out dist/LICENSES.txt dist/amd64/gatewright dist/amd64/gatewright-server
//
// The file contains the license and the notices of Gatewright. It also contains the licenses of each linked Go module,
// of the changed copies in shared/thirdparty, of the Go standard library, and of the npm packages in the console. The
// command fails if a module has no license. From the same binaries and the same module cache, it makes the same bytes.
//
// It does not judge licenses: a reviewer decides whether a license is acceptable when a module is added to go.mod.
// Read collect.go for the sources of the texts, and write.go for the format of the file.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
)

func main() {
	tree := flag.String("tree", ".", "the folder of the checkout that the binaries were built from")
	out := flag.String("out", "dist/LICENSES.txt", "the file to write")
	flag.Parse()
	if err := run(context.Background(), *tree, *out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

// run writes the license texts of binaries to a file. out is the path of the file, and tree is the folder of the
// checkout.
func run(ctx context.Context, tree, out string, binaries []string) error {
	c := collection{}
	if err := c.addProduct(tree); err != nil {
		return err
	}
	if err := c.addConsole(tree); err != nil {
		return err
	}
	if err := c.addBinaries(ctx, tree, binaries); err != nil {
		return err
	}
	if err := os.WriteFile(out, c.text(), 0o644); err != nil { //nolint:gosec // G306: for everybody to read
		return fmt.Errorf("write the license texts: %w", err)
	}
	return nil
}
