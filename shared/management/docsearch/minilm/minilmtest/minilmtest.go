// Package minilmtest has weights of package minilm for tests: the published weights,
// and random weights, which do not need the file of the published weights.
//
// The published weights are a file of the repository. Read this file first, then random.go.
package minilmtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/gatewright/gatewright/shared/management/docsearch/minilm"
)

// weightsPath is the path of the file of weights in the repository.
const weightsPath = "shared/management/docsearch/minilm/minilm-l6-v2.weights"

// File returns the bytes of the published weights.
func File(t testing.TB) []byte {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(root(t), weightsPath))
	if err != nil {
		t.Fatalf("read the weights: %v", err)
	}
	return file
}

// Model returns the model with the published weights.
func Model(t testing.TB) *minilm.Model {
	t.Helper()
	model, err := minilm.Read(File(t))
	if err != nil {
		t.Fatal(err)
	}
	return model
}

// root returns the root of the repository: the nearest folder above the test's folder that contains go.mod.
func root(t testing.TB) string {
	t.Helper()
	folder, err := os.Getwd()
	for err == nil {
		if _, statErr := os.Stat(filepath.Join(folder, "go.mod")); statErr == nil {
			return folder
		}
		if parent := filepath.Dir(folder); parent != folder {
			folder = parent
		} else {
			err = fs.ErrNotExist
		}
	}
	t.Fatal(err)
	return ""
}
