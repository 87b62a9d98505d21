// Package minilmtest gives tests the published weights of package minilm, and random ones that are quick to recognize.
//
// The published weights are a file of the repository. Read this file first, then random.go.
package minilmtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/gatewright/gatewright/shared/docsearch/minilm"
)

// weights is the path of the file of weights in the repository.
const weights = "shared/docsearch/minilm/minilm-l6-v2.weights"

// File returns the bytes of the published weights.
func File(t testing.TB) []byte {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(root(t), weights))
	if err != nil {
		t.Fatalf("read the weights: %v", err)
	}
	return file
}

// Model gives the model with the published weights.
func Model(t testing.TB) *minilm.Model {
	t.Helper()
	model, err := minilm.Read(File(t))
	if err != nil {
		t.Fatal(err)
	}
	return model
}

// root is the repository's, which is above the folder in which a test runs.
func root(t testing.TB) string {
	t.Helper()
	folder, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(folder, "go.mod")); missing == nil {
			return folder
		}
		if above := filepath.Dir(folder); above != folder {
			folder = above
		} else {
			err = fs.ErrNotExist
		}
	}
	t.Fatal(err)
	return ""
}
