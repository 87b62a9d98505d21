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

// options say what to release, and where the files are.
type options struct {
	// tree is the folder of the checkout, and built the folder of the files that make has built. The folder of the release is
	// created in out.
	tree, built, out string
	// version is the version in the binaries, such as 1.2.3. tag is the tag to release. It may be "" in a dry run.
	version, tag string
	// key is the path of the signing key. A dry run needs none.
	key string
	// systems are the systems to release for, such as linux-amd64. Each of the services has an image of its own.
	systems, services []string
	// dry is true for a release without a tag and without a signature.
	dry     bool
	printed io.Writer
}

// check returns the release notes. It returns an error if the release cannot be made from this checkout with these options.
func (o options) check(ctx context.Context) (notes string, err error) {
	if !slices.ContainsFunc(o.systems, func(s string) bool { return strings.HasPrefix(s, "linux-") }) {
		return "", errors.New("SYSTEMS has no system for Linux, which the images of a release need: add linux-amd64 or linux-arm64")
	}
	changes, err := git(ctx, o.tree, "status", "--porcelain")
	if err != nil {
		return "", err
	}
	if changes != "" {
		return "", fmt.Errorf("the checkout has uncommitted changes: commit or remove them\n%s", changes)
	}
	if o.tag != "" && o.tag != "v"+o.version {
		return "", fmt.Errorf("VERSION=%s is not v%s, which is the version in shared/release/VERSION: change and commit that file, or release that version", o.tag, o.version)
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
		return "", fmt.Errorf("CHANGELOG.md has no section [%s]: rename the section [%s] to it, and add an empty one above it", o.version, unreleased)
	}
	return of.notes(o.version), nil
}

// checkTagAndKey returns an error if the tag or the key of a release is missing or wrong. A dry run needs neither.
func (o options) checkTagAndKey(ctx context.Context) error {
	if o.tag == "" {
		return errors.New("no tag to release: set VERSION=v1.2.3, or set DRY=1 for a dry run without a tag and a signature")
	}
	if strings.HasSuffix(o.version, "-dev") {
		return fmt.Errorf("%s is a version between releases: remove -dev from it in shared/release/VERSION and commit the file", o.version)
	}
	tagged, err := git(ctx, o.tree, "rev-parse", "--verify", "refs/tags/"+o.tag+"^{commit}")
	if err != nil {
		return fmt.Errorf("the tag %s does not exist: create it with git tag: %w", o.tag, err)
	}
	head, err := git(ctx, o.tree, "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	if tagged != head {
		return fmt.Errorf("the tag %s is at commit %s, but the checkout is at %s: run git switch --detach %s", o.tag, tagged, head, o.tag)
	}
	if o.key == "" {
		return errors.New("no key to sign the release: set KEY=path, the file of the key")
	}
	if info, err := os.Stat(o.key); err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("the signing key KEY=%s does not exist or is not a file: set KEY= to the file of the key", o.key)
	}
	return nil
}

// git runs a git command in a checkout and returns its output without the last line ending.
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
