// Package released returns the commits of the releases, which the file packaging/released lists, and their source,
// which it reads from the checkout's history. Tests of upgrades build that source and compare it with this version.
//
// It does not build anything. This is the only file.
package released

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Commits returns the commits of all releases as full hashes, the last release first. repository is the folder of the
// checkout.
func Commits(repository string) ([]string, error) {
	name := filepath.Join(repository, "packaging", "released")
	raw, err := os.ReadFile(name) //nolint:gosec // G304: a file of the checkout
	if err != nil {
		return nil, err
	}
	commits := strings.Fields(string(raw))
	if len(commits) == 0 {
		return nil, fmt.Errorf("%s names no commit: write the commit of the last release into its first line", name)
	}
	return commits, nil
}

// Commit returns the commit of the last release as a full hash.
func Commit(repository string) (string, error) {
	commits, err := Commits(repository)
	if err != nil {
		return "", err
	}
	return commits[0], nil
}

// WriteSource writes the regular files of a commit into a folder. repository is the folder of the checkout. If the
// checkout does not have the commit, it writes nothing, and its error says in one line how to get the commit.
func WriteSource(ctx context.Context, repository, commit, folder string) error {
	if !HasCommit(ctx, repository, commit) {
		return fmt.Errorf("the release of commit %s is not in this checkout, which may be a shallow one: `git fetch "+
			"origin %s` gets it", commit, commit)
	}
	//nolint:gosec // G204: git, of a commit of the checkout
	cmd := exec.CommandContext(ctx, "git", "-C", repository, "archive", "--format=tar", commit)
	tree, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("write the tree of %s: %w", commit, err)
	}
	err = unpack(folder, tree)
	if err == nil {
		_, err = io.Copy(io.Discard, tree) // read the padding of the last block
	}
	// After an error, git may have more output than fits into the pipe, and would wait for a reader. Closing the pipe
	// ends git.
	return errors.Join(err, tree.Close(), cmd.Wait())
}

// HasCommit reports whether the checkout has the files of a commit. A shallow checkout can lack them.
func HasCommit(ctx context.Context, repository, commit string) bool {
	//nolint:gosec // G204: git, of a commit
	return exec.CommandContext(ctx, "git", "-C", repository, "cat-file", "-e", commit+"^{tree}").Run() == nil
}

// HasFullHistory reports whether the checkout has its whole history, and therefore every release. It is false for a
// shallow checkout, and for a folder of sources without a repository.
func HasFullHistory(ctx context.Context, repository string) bool {
	//nolint:gosec // G204: git, of the checkout
	out, err := exec.CommandContext(ctx, "git", "-C", repository, "rev-parse", "--is-shallow-repository").Output()
	return err == nil && strings.TrimSpace(string(out)) == "false"
}

// ReadFile returns the content of a file at a commit, by its path from the checkout's root. Every error wraps
// fs.ErrNotExist: the file did not exist then, the checkout does not have the commit, or git failed.
func ReadFile(ctx context.Context, repository, commit, path string) ([]byte, error) {
	//nolint:gosec // G204: git, of a commit of the checkout
	raw, err := exec.CommandContext(ctx, "git", "-C", repository, "show", commit+":"+path).Output()
	if err != nil {
		return nil, fmt.Errorf("%s at commit %s: %w", path, commit, fs.ErrNotExist)
	}
	return raw, nil
}

// unpack writes the files of an archive from `git archive` into a folder.
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
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750),
			os.WriteFile(path, raw, h.FileInfo().Mode())); err != nil {
			return err
		}
	}
}
