package upgrade_test

import (
	"path/filepath"
	"testing"

	"github.com/gatewright/gatewright/internal/gobuild"
)

// repository is the checkout's folder.
var repository = filepath.Join("..", "..")

// built compiles the product of a tree, as `make run` does.
func built(t *testing.T, tree string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "product")
	// Both trees share the compiled packages in which they do not differ: -trimpath keeps folders out of them.
	if err := gobuild.Build(t.Context(), tree, "./local", path); err != nil {
		t.Fatalf("build %s: %v", tree, err)
	}
	return path
}
