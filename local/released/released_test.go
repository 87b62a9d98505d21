package released_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

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

// TestSourceThatCannotBeWrittenIsAnError in a moment, although git has more to say than a pipe holds.
func TestSourceThatCannotBeWrittenIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := released.Source(ctx, repository, "HEAD", filepath.Join(file, "tree"))
	if err == nil || ctx.Err() != nil {
		t.Errorf("Source(a folder below a file) = %v, and its context ended with %v, want an error before that", err, ctx.Err())
	}
}

// TestCompleteHistoryIsKnown of a small repository and of a shallow clone of it.
func TestCompleteHistoryIsKnown(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	whole, shallow := filepath.Join(dir, "whole"), filepath.Join(dir, "shallow")
	git("init", "-q", whole)
	for _, message := range []string{"one", "two"} {
		git("-C", whole, "-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false", "commit", "-q", "--allow-empty", "-m", message)
	}
	git("clone", "-q", "--depth=1", "file://"+filepath.ToSlash(whole), shallow)
	for path, want := range map[string]bool{whole: true, shallow: false, dir: false} {
		if got := released.Complete(t.Context(), path); got != want {
			t.Errorf("Complete(%s) = %t, want %t", filepath.Base(path), got, want)
		}
	}
}

// TestFileOfTheReleaseIsAsItWas, and what was not there is told apart.
func TestFileOfTheReleaseIsAsItWas(t *testing.T) {
	commit, err := released.Commit(repository)
	if err != nil {
		t.Fatal(err)
	}
	if !released.There(t.Context(), repository, commit) {
		if released.Complete(t.Context(), repository) {
			t.Fatalf("the checkout has its whole history, and the last release %s is not in it", commit)
		}
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
