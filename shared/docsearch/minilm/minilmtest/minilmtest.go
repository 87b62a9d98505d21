// Package minilmtest gives tests the published weights of package minilm, which are no part of the repository.
//
// `make docs-index` makes their file. A test that needs it is skipped where it is missing; others take the random ones of
// random.go. Read this file first.
package minilmtest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/gatewright/gatewright/shared/docsearch/minilm"
)

// weights is where make docs-index puts them.
const weights = "dist/docsearch/minilm-l6-v2.weights"

// File gives the bytes of the weights.
func File(t testing.TB) []byte {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(root(t), weights))
	switch {
	case err == nil:
		return file
	case errors.Is(err, fs.ErrNotExist):
		t.Skip("there are no weights here; make docs-index makes them")
	default:
		t.Fatal(err)
	}
	return nil
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
