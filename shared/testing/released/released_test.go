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

	"github.com/gatewright/gatewright/shared/testing/released"
)

// repository is the checkout's folder.
var repository = filepath.Join("..", "..", "..")

// TestReleaseIsAFullCommitHash checks that the file has a full commit hash: a short hash or a branch can mean another
// commit later.
func TestReleaseIsAFullCommitHash(t *testing.T) {
	commit, err := released.Commit(repository)
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^[0-9a-f]{40}$`).MatchString(commit) {
		t.Errorf("packaging/released = %q, want a full commit hash", commit)
	}
}

// TestMissingReleaseErrorIsOneLine checks that the error for a missing commit is one line that says how to get the
// commit. Continuous integration often has only the last commit.
func TestMissingReleaseErrorIsOneLine(t *testing.T) {
	const unknownCommit = "0123456789abcdef0123456789abcdef01234567"
	folder := t.TempDir()
	err := released.WriteSource(t.Context(), repository, unknownCommit, folder)
	if err == nil || !strings.Contains(err.Error(), "git fetch origin "+unknownCommit) ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("WriteSource(unknown commit) = %v, want one line with the git fetch", err)
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) > 0 {
		t.Errorf("files after WriteSource(unknown commit) = %v, %v, want none", entries, err)
	}
}

// TestSourceThatCannotBeWrittenIsAnError checks that WriteSource returns an error immediately if it cannot create the
// folder. It must not wait for git, which has more output than a pipe holds.
func TestSourceThatCannotBeWrittenIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := released.WriteSource(ctx, repository, "HEAD", filepath.Join(file, "tree"))
	if err == nil || ctx.Err() != nil {
		t.Errorf("WriteSource(a folder below a file) = %v with the context error %v, want an error and no context error", err,
			ctx.Err())
	}
}

// TestFullHistoryIsDetected checks a complete repository, a shallow clone of it, and a folder that is no repository.
func TestFullHistoryIsDetected(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	complete, shallow := filepath.Join(dir, "whole"), filepath.Join(dir, "shallow")
	git("init", "-q", complete)
	for _, message := range []string{"one", "two"} {
		git("-C", complete, "-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false",
			"commit", "-q", "--allow-empty", "-m", message)
	}
	git("clone", "-q", "--depth=1", "file://"+filepath.ToSlash(complete), shallow)
	for _, c := range []struct {
		name, path string
		want       bool
	}{
		{"complete repository", complete, true}, {"shallow clone", shallow, false}, {"no repository", dir, false},
	} {
		if got := released.HasFullHistory(t.Context(), c.path); got != c.want {
			t.Errorf("HasFullHistory(%s) = %t, want %t", c.name, got, c.want)
		}
	}
}

// TestFileReturnsTheReleasedContent checks ReadFile for a file of the last release, and for a file that the release
// does not have.
func TestFileReturnsTheReleasedContent(t *testing.T) {
	commit, err := released.Commit(repository)
	if err != nil {
		t.Fatal(err)
	}
	if !released.HasCommit(t.Context(), repository, commit) {
		if released.HasFullHistory(t.Context(), repository) {
			t.Fatalf("the checkout has its full history without the last release %s, want it in the history", commit)
		}
		t.Skip("this checkout is a shallow one, without the last release")
	}
	raw, err := released.ReadFile(t.Context(), repository, commit, "go.mod")
	if err != nil || !strings.HasPrefix(string(raw), "module ") {
		t.Errorf("ReadFile(go.mod) = %.20q, %v, want text that begins with module", raw, err)
	}
	if raw, err := released.ReadFile(t.Context(), repository, commit, "no/such/file"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadFile(no/such/file) = %q, %v, want %v", raw, err, fs.ErrNotExist)
	}
}
