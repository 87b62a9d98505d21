// Package released knows the releases: their commits, which packaging/released names, and their source, which comes out of
// the checkout's history. Tests of upgrades build it and compare it with this version.
//
// It builds nothing. Read released.go, which is all of it.
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

// Commits returns the commits of all releases of the checkout in a folder as whole hashes, the last release first.
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

// Commit returns the commit of the last release as a whole hash.
func Commit(repository string) (string, error) {
	commits, err := Commits(repository)
	if err != nil {
		return "", err
	}
	return commits[0], nil
}

// Source writes the tree of a commit of the checkout in a folder into another one. Where the checkout has no such commit, its
// error says in one line how to get it, and nothing is written.
func Source(ctx context.Context, repository, commit, folder string) error {
	if !There(ctx, repository, commit) {
		return fmt.Errorf("the release of commit %s is not in this checkout, which may be a shallow one: `git fetch origin %s` gets it", commit, commit)
	}
	cmd := exec.CommandContext(ctx, "git", "-C", repository, "archive", "--format=tar", commit) //nolint:gosec // G204: git, of a commit of the checkout
	tree, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("write the tree of %s: %w", commit, err)
	}
	err = unpack(folder, tree)
	if err == nil {
		_, err = io.Copy(io.Discard, tree) // what fills the last block
	}
	// After an error git has more to write than a pipe holds, and would wait for a reader: without one it ends.
	return errors.Join(err, tree.Close(), cmd.Wait())
}

// There tells whether the checkout has the tree of a commit, which a shallow one may not have.
func There(ctx context.Context, repository, commit string) bool {
	return exec.CommandContext(ctx, "git", "-C", repository, "cat-file", "-e", commit+"^{tree}").Run() == nil //nolint:gosec // G204: git, of a commit
}

// Complete reports whether the checkout has all of its history, and so every release. It is false for a shallow checkout, and for a
// folder of sources without a repository.
func Complete(ctx context.Context, repository string) bool {
	out, err := exec.CommandContext(ctx, "git", "-C", repository, "rev-parse", "--is-shallow-repository").Output() //nolint:gosec // G204: git, of the checkout
	return err == nil && strings.TrimSpace(string(out)) == "false"
}

// File is a file of a commit as it was then, by its path from the checkout's root; fs.ErrNotExist for one that was not there, or where
// the checkout has no such commit.
func File(ctx context.Context, repository, commit, path string) ([]byte, error) {
	raw, err := exec.CommandContext(ctx, "git", "-C", repository, "show", commit+":"+path).Output() //nolint:gosec // G204: git, of a commit of the checkout
	if err != nil {
		return nil, fmt.Errorf("%s of the last release: %w", path, fs.ErrNotExist)
	}
	return raw, nil
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
