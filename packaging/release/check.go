package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// options are what a release is made of.
type options struct {
	// tree is the checkout, built the folder with what make has built, and out the folder for the release's folder.
	tree, built, out string
	// version is the version in the binaries, such as 1.2.3. tag is the tag to release, "" in a dry run without one.
	version, tag string
	// key is the path of the signing key.
	key string
	// systems are those of the archives, such as linux-amd64. services have an image of their own.
	systems, services []string
	// dry leaves out the tag and the signature.
	dry     bool
	printed io.Writer
}

// check returns the release notes. It returns an error if the checkout or the options are not fit for a release.
func (o options) check(ctx context.Context) (notes string, err error) {
	if !slices.ContainsFunc(o.systems, func(s string) bool { return strings.HasPrefix(s, "linux-") }) {
		return "", errors.New("a release contains images, which are for Linux: add linux-amd64 or linux-arm64 to SYSTEMS")
	}
	changes, err := git(ctx, o.tree, "status", "--porcelain")
	if err != nil {
		return "", err
	}
	if changes != "" {
		return "", fmt.Errorf("the checkout has changes that are in no commit: commit or remove them\n%s", changes)
	}
	if o.tag != "" && o.tag != "v"+o.version {
		return "", fmt.Errorf("VERSION=%s is not v%s, the version in shared/release/VERSION: commit the version that you release", o.tag, o.version)
	}
	if !o.dry {
		if err := o.checkTagAndKey(ctx); err != nil {
			return "", err
		}
	}
	raw, err := os.ReadFile(filepath.Join(o.tree, "CHANGELOG.md"))
	if err != nil {
		return "", fmt.Errorf("read the changelog: %w", err)
	}
	sections, err := parse(string(raw))
	if err != nil {
		return "", fmt.Errorf("CHANGELOG.md: %w", err)
	}
	of := sections.find(o.version)
	if of == nil && o.dry {
		of = sections.find(unreleased)
	}
	if of == nil {
		return "", fmt.Errorf("CHANGELOG.md has no section [%s]: rename [%s], and begin a new one above it", o.version, unreleased)
	}
	return of.notes(o.version), nil
}

// checkTagAndKey checks what a dry run does without.
func (o options) checkTagAndKey(ctx context.Context) error {
	if o.tag == "" {
		return errors.New("name the tag to release, as in VERSION=v1.2.3, or try it without a tag and a signature: DRY=1")
	}
	if strings.HasSuffix(o.version, "-dev") {
		return fmt.Errorf("%s is the version of a checkout between releases: take -dev off it in shared/release/VERSION", o.version)
	}
	tagged, err := git(ctx, o.tree, "rev-parse", "--verify", "refs/tags/"+o.tag+"^{commit}")
	if err != nil {
		return fmt.Errorf("there is no tag %s: make it with git tag: %w", o.tag, err)
	}
	head, err := git(ctx, o.tree, "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	if tagged != head {
		return fmt.Errorf("the tag %s is at commit %s, and the checkout at %s: run git switch --detach %s", o.tag, tagged, head, o.tag)
	}
	if o.key == "" {
		return errors.New("name the file of the key that signs the release: KEY=path")
	}
	if info, err := os.Stat(o.key); err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("there is no signing key in the file KEY=%s", o.key)
	}
	return nil
}

// git runs a git command in a checkout and returns what it prints, without the line's end.
func git(ctx context.Context, tree string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", tree}, args...)...) //nolint:gosec // G204: git, with a tag that is the version
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimRight(string(out), "\n"), nil
}
