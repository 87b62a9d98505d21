package upgrade_test

import (
	"path/filepath"
	"testing"

	"github.com/gatewright/gatewright/shared/testing/gobuild"
)

// repository is the checkout's folder.
var repository = filepath.Join("..", "..", "..")

// buildProduct compiles the product from a source tree, as `make run` does, and returns the path of the binary.
func buildProduct(t *testing.T, tree string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "product")
	// Both trees share the compiled packages that do not differ: with -trimpath a compiled package does not depend on its folder.
	if err := gobuild.Build(t.Context(), tree, "./local", path); err != nil {
		t.Fatalf("build %s: %v", tree, err)
	}
	return path
}
