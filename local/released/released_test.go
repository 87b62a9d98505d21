package released_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/local/released"
)

// repository is the checkout's folder.
var repository = filepath.Join("..", "..")

// TestReleaseIsACommitOfThisHistory: what names it names it for good, which a short hash or a branch does not.
func TestReleaseIsACommitOfThisHistory(t *testing.T) {
	commit, err := released.Commit(repository)
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^[0-9a-f]{40}$`).MatchString(commit) {
		t.Errorf("packaging/released names no commit by its whole hash: %q", commit)
	}
}

// TestReleaseThatIsNotHereIsOneLine, which says how to get it: continuous integration often has the last commit alone.
func TestReleaseThatIsNotHereIsOneLine(t *testing.T) {
	const nowhere = "0123456789abcdef0123456789abcdef01234567"
	folder := t.TempDir()
	err := released.Source(t.Context(), repository, nowhere, folder)
	if err == nil || !strings.Contains(err.Error(), "git fetch origin "+nowhere) || strings.Contains(err.Error(), "\n") {
		t.Errorf("it is answered with %v", err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("it has written %v, %v", left, err)
	}
}

// TestFileOfTheReleaseIsAsItWas, and what was not there is told apart.
func TestFileOfTheReleaseIsAsItWas(t *testing.T) {
	commit, err := released.Commit(repository)
	if err != nil {
		t.Fatal(err)
	}
	if !released.There(t.Context(), repository, commit) {
		t.Skip("this checkout is a shallow one, without the last release")
	}
	raw, err := released.File(t.Context(), repository, commit, "go.mod")
	if err != nil || !strings.HasPrefix(string(raw), "module ") {
		t.Errorf("go.mod begins with %.20q, %v", raw, err)
	}
	if raw, err := released.File(t.Context(), repository, commit, "no/such/file"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that was not there is %q, %v", raw, err)
	}
}
