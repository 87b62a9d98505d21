package upgrade_test

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// repository is the checkout's folder.
var repository = filepath.Join("..", "..")

// released is the commit of the last release.
func released() (string, error) {
	raw, err := os.ReadFile(filepath.Join(repository, "packaging", "released"))
	return strings.TrimSpace(string(raw)), err
}

// source writes the tree of a commit of the checkout into a folder.
func source(ctx context.Context, folder, commit string) error {
	if err := exec.CommandContext(ctx, "git", "-C", repository, "cat-file", "-e", commit+"^{tree}").Run(); err != nil {
		return fmt.Errorf("the last release, commit %s, is not in this checkout, which may be a shallow one: `git fetch origin %s` gets it", commit, commit)
	}
	cmd := exec.CommandContext(ctx, "git", "-C", repository, "archive", "--format=tar", commit)
	tree, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("write the tree of %s: %w", commit, err)
	}
	return errors.Join(unpack(folder, tree), cmd.Wait())
}

// unpack writes the files of an archive that git has made.
func unpack(folder string, archive io.Reader) error {
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		raw, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		path := filepath.Join(folder, filepath.FromSlash(h.Name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, raw, h.FileInfo().Mode())); err != nil {
			return err
		}
	}
}

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

// TestReleaseIsACommitOfThisHistory: what names it names it for good, which a short hash or a branch does not.
func TestReleaseIsACommitOfThisHistory(t *testing.T) {
	commit, err := released()
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
	err := source(t.Context(), folder, nowhere)
	if err == nil || !strings.Contains(err.Error(), "git fetch origin "+nowhere) || strings.Contains(err.Error(), "\n") {
		t.Errorf("it is answered with %v", err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("it has written %v, %v", left, err)
	}
}
