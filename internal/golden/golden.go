// Package golden compares what a test derived with a file in the repository,
// and writes the file anew when the test runs with -update.
//
// It is for derived lists and documents that a review shall see change: the
// operations, the OpenAPI document, a function's dependencies, a ledger of
// requests. It is not for values a reader can check at a glance: those belong
// into the test's own table. Importing it gives a test binary the flag -update,
// so only tests import it; `make goldens` runs every package that does.
//
// Why committed files: assertions about a few properties are silent about what
// nobody thought of (a field that vanished, a function that links a new module),
// and what is generated at build time is never seen in a review. A snapshot
// library would bring names, folders and review commands of its own for these
// few lines. A golden is deterministic: sorted, without times or paths of a
// machine. A merge conflict in one is solved by `make goldens`, not by hand.
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

// Equal fails the test with a unified diff unless the file at path, relative to
// the test's package, holds got. With -update it writes got there instead,
// and makes the folders on the way; continuous integration (CI is set) refuses
// to update, so that a golden changes only in a commit.
//
// Line ends are compared as they are: a golden is byte for byte.
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
		t.Fatalf("golden %s: -update is refused where CI is set; update it in a commit", path)
		return
	case write:
		writeFile(t, path, got)
		return
	case compare:
	}
	want, err := os.ReadFile(path) //nolint:gosec // the path is a literal of the test that asks
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.Fatalf("golden %s does not exist; `make goldens` writes it. It would hold:\n%s", path, got)
	case err != nil:
		t.Fatalf("read golden: %v", err)
	case !bytes.Equal(want, got):
		t.Fatalf("golden %s differs; if the change is meant, `make goldens` writes it anew:\n%s",
			path, diff.Diff(path, want, "got", got))
	}
}

func writeFile(t T, path string, got []byte) {
	t.Helper()
	// An unchanged file keeps its time, so that Go's test cache stays good.
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
