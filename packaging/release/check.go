package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/internal/gobuild"
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
	// settings returns what the go command compiles with, by the names of its variables.
	settings func(ctx context.Context) (map[string]string, error)
}

// check returns the release notes. It returns an error if the release cannot be made from this checkout with these options.
func (o options) check(ctx context.Context) (notes string, err error) {
	if !slices.ContainsFunc(o.systems, func(s string) bool { return strings.HasPrefix(s, "linux-") }) {
		return "", errors.New("SYSTEMS has no system for Linux, which the images of a release need: add linux-amd64 or linux-arm64")
	}
	if err := o.checkSources(ctx); err != nil {
		return "", err
	}
	if err := o.checkSettings(ctx); err != nil {
		return "", err
	}
	if o.tag != "" && o.tag != "v"+o.version {
		return "", fmt.Errorf("VERSION=%s is not v%s, which is the version in shared/release/VERSION: change and commit that file, or release that version", o.tag, o.version)
	}
	if o.dry {
		if _, err := os.Lstat(filepath.Join(o.finished(), signature)); err == nil {
			return "", fmt.Errorf("%s is a signed release, which a dry run would replace: move it away", o.finished())
		}
	} else if err := o.checkTagAndKey(ctx); err != nil {
		return "", err
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

// checkSources returns an error if a file of the checkout is in no commit, or has other bytes than in the commit. A build reads the
// files that git status does not show too: those that only the machine's own rules ignore, those that git is told not to compare, and
// those that it converts, such as line ends.
func (o options) checkSources(ctx context.Context) error {
	changes, err := git(ctx, o.tree, "status", "--porcelain", "--untracked-files=all", "--ignore-submodules=none")
	if err != nil {
		return err
	}
	if changes != "" {
		return fmt.Errorf("the checkout has uncommitted changes: commit or remove them\n%s", changes)
	}
	others, err := git(ctx, o.tree, "ls-files", "--others", "--exclude-per-directory=.gitignore")
	if err != nil {
		return err
	}
	hidden, err := o.differing(ctx)
	if err != nil {
		return err
	}
	for line := range strings.Lines(others) {
		// Neither the go command nor a pattern of files to embed takes names with a dot in front.
		if name := strings.TrimRight(line, "\n"); !strings.HasPrefix(name, ".") && !strings.Contains(name, "/.") {
			hidden = append(hidden, name)
		}
	}
	if len(hidden) > 0 {
		return fmt.Errorf("a build reads these files, and git's settings hide that they are not those of the commit: remove them or restore them, and what hides them (.git/info, core.excludesFile, core.autocrlf, git update-index --no-assume-unchanged --no-skip-worktree)\n%s",
			strings.Join(hidden, "\n"))
	}
	return nil
}

// differing returns the names of files whose bytes are not those of the index, whatever git converts or is told not to compare.
func (o options) differing(ctx context.Context) (names []string, err error) {
	listed, err := git(ctx, o.tree, "ls-files", "--stage", "-z")
	if err != nil {
		return nil, err
	}
	var files, committed []string
	for entry := range strings.SplitSeq(listed, "\x00") {
		about, name, _ := strings.Cut(entry, "\t")
		mode, rest, _ := strings.Cut(about, " ")
		digest, _, _ := strings.Cut(rest, " ")
		if strings.HasPrefix(mode, "100") { // a regular file
			files, committed = append(files, name), append(committed, digest)
		}
	}
	digests, err := gitWith(ctx, o.tree, strings.NewReader(strings.Join(files, "\n")), "hash-object", "--no-filters", "--stdin-paths")
	if err != nil {
		return nil, fmt.Errorf("compare the checkout with its commit: %w", err)
	}
	here := strings.Fields(digests)
	if len(here) != len(files) {
		return nil, fmt.Errorf("compare the checkout with its commit: git has %d digests of %d files", len(here), len(files))
	}
	for i, name := range files {
		if here[i] != committed[i] {
			names = append(names, name)
		}
	}
	return names, nil
}

// defaults are the settings of the go command that change the bytes of programs, with the values that releases are built with.
// `go env -w` keeps other values of a machine.
var defaults = map[string]string{
	"GOFLAGS": strings.Join(gobuild.Flags(), " "), "GOAMD64": "v1", "GOARM64": "v8.0", "GOEXPERIMENT": "", "GOFIPS140": "off", "GOWORK": "",
}

// goSettings asks the go command for its settings in the working directory.
func goSettings(ctx context.Context) (map[string]string, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"env", "-json"}, slices.Sorted(maps.Keys(defaults))...)...) //nolint:gosec // G204: names of variables
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("read the settings of the go command: %w", err)
	}
	var all map[string]string
	if err := json.Unmarshal(out, &all); err != nil {
		return nil, fmt.Errorf("read the settings of the go command: %w", err)
	}
	all["GOFLAGS"] = strings.Join(slices.DeleteFunc(strings.Fields(all["GOFLAGS"]), sameBytes), " ")
	if all["GOWORK"] == "off" {
		all["GOWORK"] = ""
	}
	for _, name := range []string{"GOAMD64", "GOARM64", "GOFIPS140"} {
		all[name] = cmp.Or(all[name], defaults[name]) // empty for another architecture than this machine's
	}
	return all, nil
}

// sameBytes reports whether programs that are built with a flag have the same bytes as without it.
func sameBytes(flag string) bool {
	return flag == "-v" || flag == "-x" || flag == "-modcacherw" || flag == "-mod=readonly" || strings.HasPrefix(flag, "-p=") || strings.HasPrefix(flag, "-buildvcs")
}

// checkSettings returns an error if this machine compiles in another way than others do.
func (o options) checkSettings(ctx context.Context) error {
	all, err := o.settings(ctx)
	if err != nil {
		return err
	}
	var others []string
	for _, name := range slices.Sorted(maps.Keys(defaults)) {
		if all[name] != defaults[name] {
			others = append(others, fmt.Sprintf("%s is %q, and releases are built with %q", name, all[name], defaults[name]))
		}
	}
	if len(others) > 0 {
		return fmt.Errorf("this machine makes other programs than other machines: %s: remove it from the environment, and run go env -u", strings.Join(others, "; "))
	}
	return nil
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
	return gitWith(ctx, tree, nil, args...)
}

// gitWith is git with a standard input.
func gitWith(ctx context.Context, tree string, in io.Reader, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", tree}, args...)...) //nolint:gosec // G204: git, with a tag that is the version
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = in, &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimRight(string(out), "\n"), nil
}
