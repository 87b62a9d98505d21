// Package golden compares the output of a test with a file in the repository, and writes the file when the test runs with -update.
//
// It is for derived lists and documents whose changes a review should show: the operations, the OpenAPI document, a function's
// dependencies, a list of requests. It is not for values that a reader can check at a glance: those belong in the test's own
// table. Importing it adds the flag -update to a binary, so only tests may import it; `make goldens` runs every package that does.
//
// The files are committed for two reasons. Assertions about a few properties miss unexpected changes (a field that
// disappeared, a function that links a new module), and a review never shows output that is generated at build time. A
// snapshot library would add names, folders and review commands of its own for these few lines. A golden is deterministic:
// sorted, without times or paths of a machine. Solve a merge conflict in one with `make goldens`, not by hand.
//
//	golden.Equal(t, "testdata/operations.txt", got)
package golden

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/diff"
)

var update = flag.Bool("update", false, "write golden files anew instead of comparing with them")

// T is the part of *testing.T that Equal needs.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Equal fails the test with a unified diff unless the file at path, relative to the test's package, contains got. If
// there is no such file, the failure shows got. With -update Equal writes got there instead, and creates missing
// folders. In continuous integration (CI is set), it fails the test with -update, so that a golden changes only in a
// commit.
//
// Line ends are compared too: the file must equal got byte for byte.
func Equal[B ~string | ~[]byte](t T, path string, got B) {
	t.Helper()
	mode := compare
	if *update {
		mode = write
		if os.Getenv("CI") != "" {
			mode = refuse
		}
	}
	equal(t, mode, path, []byte(got))
}

type mode int

const (
	compare mode = iota
	write
	refuse
)

func equal(t T, m mode, path string, got []byte) {
	t.Helper()
	switch m {
	case refuse:
		t.Fatalf("golden %s: -update is refused where CI is set, want the update in a commit", path)
		return
	case write:
		writeFile(t, path, got)
		return
	case compare:
	}
	want, err := os.ReadFile(path) //nolint:gosec // the path is a literal of the calling test
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.Fatalf("golden %s does not exist; `make goldens` writes it. Its content, if it is what you want:\n%s", path, got)
	case err != nil:
		t.Fatalf("read golden: %v, want its content", err)
	case !bytes.Equal(want, got):
		t.Fatalf("golden %s differs; if the change is intended, `make goldens` writes it:\n%s",
			path, diff.Diff(path, want, "got", got))
	}
}

func writeFile(t T, path string, got []byte) {
	t.Helper()
	// Do not write an unchanged file: Go's test cache depends on its modification time.
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, got) { //nolint:gosec // as in equal
		return
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatalf("make the golden's folder: %v", err)
	}
	if err := os.WriteFile(path, got, 0o600); err != nil {
		t.Fatalf("write golden: %v", err)
	}
	t.Logf("golden %s written", path)
}
