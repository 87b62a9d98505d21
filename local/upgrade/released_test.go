package upgrade_test

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// repository is the checkout's folder.
var repository = filepath.Join("..", "..")

// built compiles the product of a tree, as `make run` does.
func built(t *testing.T, tree string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "product")
	// Without the folders' names in it, both find in the cache what is the same of them.
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", path, "./local")
	cmd.Dir = tree
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", tree, err, out)
	}
	return path
}
