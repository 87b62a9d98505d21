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

	"github.com/gatewright/gatewright/shared/testing/gobuild"
)

// options describes the release, and where its files are.
type options struct {
	// tree is the folder of the checkout, and buildDir is the folder with the files that make has built. The command
	// creates the folder of the release in out.
	tree, buildDir, out string
	// version is the version in the binaries, such as 1.2.3. tag is the tag to release, which can be "" in a dry run.
	version, tag string
	// key is the path of the signing key. A dry run needs none.
	key string
	// systems are the systems to release for, such as linux-amd64. Each of the services has its own image.
	systems, services []string
	// dryRun is true for a release without a tag and without a signature.
	dryRun bool
	output io.Writer
	// settings returns the settings of the go command that change programs, by the names of their variables.
	settings func(ctx context.Context) (map[string]string, error)
}

// check checks whether the release can be made from this checkout with these options, and returns the release notes.
func (o options) check(ctx context.Context) (notes string, err error) {
	if !slices.ContainsFunc(o.systems, func(s string) bool { return strings.HasPrefix(s, "linux-") }) {
		return "", errors.New("SYSTEMS has no system for Linux, which the images of a release need: add linux-amd64 " +
			"or linux-arm64")
	}
	if err := o.checkSources(ctx); err != nil {
		return "", err
	}
	if err := o.checkSettings(ctx); err != nil {
		return "", err
	}
	if o.tag != "" && o.tag != "v"+o.version {
		return "", fmt.Errorf("VERSION=%s is not v%s, which is the version in shared/base/release/VERSION: change and "+
			"commit that file, or release that version", o.tag, o.version)
	}
	if o.dryRun {
		if _, err := os.Lstat(filepath.Join(o.releaseFolder(), signatureFile)); err == nil {
			return "", fmt.Errorf("%s is a signed release, which a dry run would replace: move it away", o.releaseFolder())
		}
	} else if err := o.checkTagAndKey(ctx); err != nil {
		return "", err
	}
	raw, err := os.ReadFile(filepath.Join(o.tree, "CHANGELOG.md"))
	if err != nil {
		return "", fmt.Errorf("read the changelog: %w", err)
	}
	sections, err := parseChangelog(string(raw))
	if err != nil {
		return "", fmt.Errorf("CHANGELOG.md: %w", err)
	}
	current := sections.find(o.version)
	if current == nil && o.dryRun {
		current = sections.find(unreleased)
	}
	if current == nil {
		return "", fmt.Errorf(
			"CHANGELOG.md has no section [%s]: rename the section [%s] to it, and add an empty one above it", o.version,
			unreleased)
	}
	return current.notes(o.version), nil
}

// checkSources returns an error if a file of the checkout is not in the commit, or has other bytes than in the commit.
// Files that a .gitignore in the checkout excludes are allowed. It also finds files that `git status` does not show,
// because a build reads them too: files that only rules of this machine ignore, files that a setting excludes from the
// comparison, and files that git converts, for example their line ends.
func (o options) checkSources(ctx context.Context) error {
	changes, err := git(ctx, o.tree, "status", "--porcelain", "--untracked-files=all", "--ignore-submodules=none")
	if err != nil {
		return err
	}
	if changes != "" {
		return fmt.Errorf("the checkout has uncommitted changes: commit or remove them\n%s", changes)
	}
	untracked, err := git(ctx, o.tree, "ls-files", "--others", "--exclude-per-directory=.gitignore")
	if err != nil {
		return err
	}
	hidden, err := o.changedFiles(ctx)
	if err != nil {
		return err
	}
	for line := range strings.Lines(untracked) {
		// Ignore names that begin with a dot: the go command neither compiles nor embeds such files.
		if name := strings.TrimRight(line, "\n"); !strings.HasPrefix(name, ".") && !strings.Contains(name, "/.") {
			hidden = append(hidden, name)
		}
	}
	if len(hidden) > 0 {
		return fmt.Errorf("a build reads these files, and git's settings hide that they are not those of the commit: "+
			"remove them or restore them, and what hides them (.git/info, core.excludesFile, core.autocrlf, git update-index "+
			"--no-assume-unchanged --no-skip-worktree)\n%s",
			strings.Join(hidden, "\n"))
	}
	return nil
}

// changedFiles returns the names of files whose bytes differ from the index. It also finds differences that git's
// settings hide.
func (o options) changedFiles(ctx context.Context) (names []string, err error) {
	index, err := git(ctx, o.tree, "ls-files", "--stage", "-z")
	if err != nil {
		return nil, err
	}
	var files, committed []string
	for entry := range strings.SplitSeq(index, "\x00") {
		meta, name, _ := strings.Cut(entry, "\t")
		mode, tail, _ := strings.Cut(meta, " ")
		digest, _, _ := strings.Cut(tail, " ")
		if strings.HasPrefix(mode, "100") { // a regular file
			files, committed = append(files, name), append(committed, digest)
		}
	}
	digests, err := gitWith(ctx, o.tree, strings.NewReader(strings.Join(files, "\n")), "hash-object", "--no-filters",
		"--stdin-paths")
	if err != nil {
		return nil, fmt.Errorf("compare the checkout with its commit: %w", err)
	}
	actual := strings.Fields(digests)
	if len(actual) != len(files) {
		return nil, fmt.Errorf("compare the checkout with its commit: git has %d digests of %d files", len(actual),
			len(files))
	}
	for i, name := range files {
		if actual[i] != committed[i] {
			names = append(names, name)
		}
	}
	return names, nil
}

// releaseSettings are the settings of the go command that change the bytes of programs, with the values for releases. A
// machine can have other values from `go env -w`.
var releaseSettings = map[string]string{
	"GOFLAGS": strings.Join(gobuild.Flags(), " "), "GOAMD64": "v1", "GOARM64": "v8.0", "GOEXPERIMENT": "",
	"GOFIPS140": "off", "GOWORK": "",
}

// goSettings returns the settings of the go command in the working directory, in a form that can be compared with
// releaseSettings.
func goSettings(ctx context.Context) (map[string]string, error) {
	names := slices.Sorted(maps.Keys(releaseSettings))
	//nolint:gosec // G204: names of variables
	cmd := exec.CommandContext(ctx, "go", append([]string{"env", "-json"}, names...)...)
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("read the settings of the go command: %w", err)
	}
	var settings map[string]string
	if err := json.Unmarshal(out, &settings); err != nil {
		return nil, fmt.Errorf("read the settings of the go command: %w", err)
	}
	settings["GOFLAGS"] = strings.Join(slices.DeleteFunc(strings.Fields(settings["GOFLAGS"]), keepsBytes), " ")
	if settings["GOWORK"] == "off" {
		settings["GOWORK"] = ""
	}
	for _, name := range []string{"GOAMD64", "GOARM64", "GOFIPS140"} {
		settings[name] = cmp.Or(settings[name], releaseSettings[name]) // empty on other architectures
	}
	return settings, nil
}

// keepsBytes reports whether a flag of the go command has no influence on the bytes of programs.
func keepsBytes(flag string) bool {
	return flag == "-v" || flag == "-x" || flag == "-modcacherw" || flag == "-mod=readonly" ||
		strings.HasPrefix(flag, "-p=") || strings.HasPrefix(flag, "-buildvcs")
}

// checkSettings returns an error if the settings of this machine differ from releaseSettings.
func (o options) checkSettings(ctx context.Context) error {
	settings, err := o.settings(ctx)
	if err != nil {
		return err
	}
	var differences []string
	for _, name := range slices.Sorted(maps.Keys(releaseSettings)) {
		if settings[name] != releaseSettings[name] {
			differences = append(differences, fmt.Sprintf("%s is %q, and releases are built with %q", name, settings[name],
				releaseSettings[name]))
		}
	}
	if len(differences) > 0 {
		return fmt.Errorf("this machine makes other programs than other machines: %s: remove it from the environment, and "+
			"run go env -u", strings.Join(differences, "; "))
	}
	return nil
}

// checkTagAndKey returns an error if the tag or the key of a release is missing or wrong. A dry run needs neither.
func (o options) checkTagAndKey(ctx context.Context) error {
	if o.tag == "" {
		return errors.New("no tag to release: set VERSION=v1.2.3, or set DRY=1 for a dry run without a tag and a signature")
	}
	if strings.HasSuffix(o.version, "-dev") {
		return fmt.Errorf("%s is a version between releases: remove -dev from it in shared/base/release/VERSION and "+
			"commit the file", o.version)
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
		return fmt.Errorf("the tag %s is at commit %s, but the checkout is at %s: run git switch --detach %s", o.tag, tagged,
			head, o.tag)
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

// gitWith works like git. in is the standard input of the command, or nil.
func gitWith(ctx context.Context, tree string, in io.Reader, args ...string) (string, error) {
	//nolint:gosec // G204: git, with a tag that is the version
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", tree}, args...)...)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = in, &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimRight(string(out), "\n"), nil
}
