package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gofrs/flock"
	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/gatewright/gatewright/shared/core/config"
)

const changes = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- Something new.\n\n## [1.2.3] - 2026-11-29\n\n### " +
	"Fixed\n\n- A fault.\n\n### Upgrade\n\nNothing to do.\n"

// checkout creates a checkout of version 1.2.3 with a tag, a key, and substitutes for the files that make builds. It
// returns the options of its release.
func checkout(t *testing.T) options {
	t.Helper()
	o := options{
		tree: t.TempDir(), buildDir: t.TempDir(), out: t.TempDir(), version: "1.2.3", tag: "v1.2.3",
		key:     filepath.Join(t.TempDir(), "key"),
		systems: []string{"linux-amd64", "windows-arm64"}, services: []string{"relay"}, output: io.Discard,
		settings: func(context.Context) (map[string]string, error) { return maps.Clone(releaseSettings), nil },
	}
	runCommand(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", o.key)
	public, err := os.ReadFile(o.key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(o.tree, "CHANGELOG.md"), changes)
	writeFile(t, filepath.Join(o.tree, filepath.FromSlash(allowedSigners)),
		"# keys\n"+signer+` namespaces="`+namespace+`" `+string(public))
	runCommand(t, "git", "-C", o.tree, "init", "-q")
	commit(t, o.tree)
	runCommand(t, "git", "-C", o.tree, "tag", o.tag)
	for _, name := range []string{
		"gatewright-1.2.3-linux-amd64.tar.gz", "gatewright-1.2.3-windows-arm64.zip", "LICENSES.txt",
		"images/gatewright.tar", "images/gatewright-relay.tar", "images/gatewright-relay-amd64.cdx.json",
	} {
		writeFile(t, filepath.Join(o.buildDir, filepath.FromSlash(name)), "the bytes of "+name)
	}
	writeFile(t, filepath.Join(o.buildDir, "images", "gatewright", "index.json"),
		`{"manifests": [{"digest": "sha256:0123"}]}`)
	for _, name := range []string{
		"amd64/gatewright", "amd64/gatewright-server", "windows-arm64/gatewright.exe",
		"windows-arm64/gatewright-server.exe",
	} {
		binary := filepath.Join(o.buildDir, filepath.FromSlash(name))
		// Every Go binary lists its modules, so the binary of this test can replace a program.
		if err := errors.Join(os.MkdirAll(filepath.Dir(binary), 0o755), os.Symlink(os.Args[0], binary)); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// runCommand runs a command, and fails the test if the command fails.
func runCommand(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}

// commit commits everything in a checkout.
func commit(t *testing.T, tree string) {
	t.Helper()
	runCommand(t, "git", "-C", tree, "add", "-A")
	runCommand(t, "git", "-C", tree, "-c", "user.name=Test", "-c", "user.email=test@example.com", "-c",
		"commit.gpgsign=false", "commit", "-q", "-m", "change")
}

// files returns the texts of the files in a folder, by their names.
func files(t *testing.T, folder string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		texts[e.Name()] = string(raw)
	}
	return texts
}

// TestReleaseIsCompleteAndSigned makes a release, and verifies it as users do. No file contains the private key. A
// second release of the same commit must have the same files.
func TestReleaseIsCompleteAndSigned(t *testing.T) {
	o := checkout(t)
	var output bytes.Buffer
	o.output = &output
	if err := run(t.Context(), o, false); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(o.out, "1.2.3")
	first := files(t, folder)
	want := []string{
		"LICENSES.txt", "RELEASE-NOTES.md", "SHA256SUMS", "SHA256SUMS.sig", "compose.yaml", "gatewright-1.2.3-image.tar",
		"gatewright-1.2.3-linux-amd64.cdx.json", "gatewright-1.2.3-linux-amd64.tar.gz",
		"gatewright-1.2.3-windows-arm64.cdx.json", "gatewright-1.2.3-windows-arm64.zip",
		"gatewright-relay-1.2.3-image.tar", "gatewright-relay-1.2.3-linux-amd64.cdx.json",
		"gatewright-server-1.2.3-linux-amd64.cdx.json", "gatewright-server-1.2.3-windows-arm64.cdx.json",
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(first))); diff != "" {
		t.Errorf("files of the release (-want +got):\n%s", diff)
	}
	var sum strings.Builder
	for _, name := range want {
		if !strings.HasPrefix(name, checksumsFile) {
			fmt.Fprintf(&sum, "%x  %s\n", sha256.Sum256([]byte(first[name])), name)
		}
	}
	if diff := cmp.Diff(sum.String(), first[checksumsFile]); diff != "" {
		t.Errorf("SHA256SUMS (-want +got): %s", diff)
	}
	verify := exec.CommandContext(t.Context(), "ssh-keygen", "-Y", "verify", "-f", filepath.Join(o.tree, allowedSigners),
		"-I", signer, "-n", namespace, "-s", filepath.Join(folder, signatureFile))
	verify.Stdin = strings.NewReader(first[checksumsFile])
	if out, err := verify.CombinedOutput(); err != nil {
		t.Errorf("ssh-keygen -Y verify = %v, want a valid signature: %s", err, out)
	}
	if notes := first["RELEASE-NOTES.md"]; !strings.Contains(notes, "# Gatewright 1.2.3\n") ||
		!strings.Contains(notes, "## Upgrade\n\nNothing to do.\n") || strings.Contains(notes, "Something new") {
		t.Errorf("RELEASE-NOTES.md = %s, want only the section of 1.2.3", notes)
	}
	secret, err := os.ReadFile(o.key)
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Split(string(secret), "\n")[1]
	for name, text := range first {
		if strings.Contains(text, line) {
			t.Errorf("%s contains the private key, want it left out", name)
		}
	}
	if strings.Contains(output.String(), line) {
		t.Error("the output contains the private key, want it left out")
	}

	o.out = filepath.Join(t.TempDir(), "another", "folder")
	if err := run(t.Context(), o, false); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, files(t, filepath.Join(o.out, "1.2.3"))); diff != "" {
		t.Errorf("second release of a commit (-want +got): %s", diff)
	}
}

// TestDryRunNeedsNoTag checks that a dry run needs no tag and no key, and prints that it makes no release.
func TestDryRunNeedsNoTag(t *testing.T) {
	o := checkout(t)
	var output bytes.Buffer
	o.version, o.tag, o.key, o.dryRun, o.output = "1.3.0-dev", "", "", true, &output
	for _, name := range []string{"linux-amd64.tar.gz", "windows-arm64.zip"} {
		writeFile(t, filepath.Join(o.buildDir, "gatewright-1.3.0-dev-"+name), "the bytes of "+name)
	}
	if err := run(t.Context(), o, false); err != nil {
		t.Fatal(err)
	}
	got := files(t, filepath.Join(o.out, "1.3.0-dev"))
	if _, signed := got[signatureFile]; signed {
		t.Errorf("dry run wrote %s, want no signature", signatureFile)
	}
	if notes := got["RELEASE-NOTES.md"]; !strings.Contains(notes, "Something new") || !strings.Contains(notes, "dry run") {
		t.Errorf("the notes of a dry run are\n%s\nwant the unreleased section, and that it is a dry run", notes)
	}
	if !strings.Contains(output.String(), "no tag and no signature") {
		t.Errorf("a dry run prints %q, want that it has no tag and no signature", output.String())
	}
}

// invalidRelease is a change of a checkout that makes a release impossible, and a part of the expected error.
type invalidRelease struct {
	name   string
	change func(t *testing.T, o *options)
	want   string
}

// invalidReleases returns a change for each check of a release.
func invalidReleases() []invalidRelease {
	return []invalidRelease{
		{"a changed file", func(t *testing.T, o *options) {
			writeFile(t, filepath.Join(o.tree, "CHANGELOG.md"), changes+"\n")
		}, "CHANGELOG.md"},
		{"a staged file", func(t *testing.T, o *options) {
			writeFile(t, filepath.Join(o.tree, "CHANGELOG.md"), changes+"\n")
			runCommand(t, "git", "-C", o.tree, "add", "CHANGELOG.md")
		}, "CHANGELOG.md"},
		{"a new file", func(t *testing.T, o *options) {
			writeFile(t, filepath.Join(o.tree, "new.go"), "package p")
		}, "new.go"},
		{"a dirty dry run", func(t *testing.T, o *options) {
			o.dryRun = true
			writeFile(t, filepath.Join(o.tree, "new.go"), "package p")
		}, "new.go"},
		{"no tag", func(_ *testing.T, o *options) { o.tag = "" }, "VERSION=v1.2.3"},
		{"another tag", func(_ *testing.T, o *options) { o.tag = "v1.2.4" }, "shared/base/release/VERSION"},
		{"another tag of a dry run", func(_ *testing.T, o *options) {
			o.tag, o.dryRun = "v1.2.4", true
		}, "shared/base/release/VERSION"},
		{"a tag that does not exist", func(_ *testing.T, o *options) { o.tag, o.version = "v1.2.4", "1.2.4" }, "git tag"},
		{"a version between releases", func(_ *testing.T, o *options) {
			o.tag, o.version = "v1.2.4-dev", "1.2.4-dev"
		}, "-dev"},
		{"the tag of another commit", func(t *testing.T, o *options) {
			writeFile(t, filepath.Join(o.tree, "new.go"), "package p")
			commit(t, o.tree)
		}, "git switch --detach v1.2.3"},
		{"no key", func(_ *testing.T, o *options) { o.key = "" }, "KEY=path"},
		{"a missing key", func(_ *testing.T, o *options) { o.key += "-missing" }, "KEY="},
		{"a file that is no key", func(t *testing.T, o *options) { writeFile(t, o.key, "no key") }, "KEY="},
		{"a key that others can read", func(t *testing.T, o *options) {
			if err := os.Chmod(o.key, 0o644); err != nil {
				t.Fatal(err)
			}
		}, "KEY="},
		{"a key that users do not know", func(t *testing.T, o *options) {
			o.key += "-other"
			runCommand(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", o.key)
		}, allowedSigners},
		{"a new file that git is told to ignore", func(t *testing.T, o *options) {
			writeFile(t, filepath.Join(o.tree, ".git", "info", "exclude"), "hidden.go\n")
			writeFile(t, filepath.Join(o.tree, "hidden.go"), "package p")
		}, "hidden.go"},
		{"a new file that git is told not to show", func(t *testing.T, o *options) {
			runCommand(t, "git", "-C", o.tree, "config", "status.showUntrackedFiles", "no")
			writeFile(t, filepath.Join(o.tree, "new.go"), "package p")
		}, "new.go"},
		{"a changed file that git is told not to compare", func(t *testing.T, o *options) {
			runCommand(t, "git", "-C", o.tree, "update-index", "--assume-unchanged", "CHANGELOG.md")
			writeFile(t, filepath.Join(o.tree, "CHANGELOG.md"), changes+"\n")
		}, "CHANGELOG.md"},
		{"a changed file that git is told to skip", func(t *testing.T, o *options) {
			runCommand(t, "git", "-C", o.tree, "update-index", "--skip-worktree", "CHANGELOG.md")
			writeFile(t, filepath.Join(o.tree, "CHANGELOG.md"), changes+"\n")
		}, "CHANGELOG.md"},
		{"a file with other line ends", func(t *testing.T, o *options) {
			runCommand(t, "git", "-C", o.tree, "config", "core.autocrlf", "true")
			writeFile(t, filepath.Join(o.tree, "CHANGELOG.md"), strings.ReplaceAll(changes, "\n", "\r\n"))
		}, "CHANGELOG.md"},
		{"programs for newer processors", func(_ *testing.T, o *options) {
			o.settings = func(context.Context) (map[string]string, error) {
				settings := maps.Clone(releaseSettings)
				settings["GOAMD64"] = "v3"
				return settings, nil
			}
		}, `GOAMD64 is "v3", and releases are built with "v1"`},
		{"a dry run over a signed release", func(t *testing.T, o *options) {
			o.dryRun = true
			writeFile(t, filepath.Join(o.releaseFolder(), signatureFile), "a signature")
		}, "a signed release"},
		{"no system for Linux", func(_ *testing.T, o *options) { o.systems = []string{"darwin-arm64"} }, "linux-amd64"},
		{"no section of the changelog", func(t *testing.T, o *options) {
			writeFile(t, filepath.Join(o.tree, "CHANGELOG.md"), strings.ReplaceAll(changes, "[1.2.3]", "[1.2.2]"))
			commit(t, o.tree)
			runCommand(t, "git", "-C", o.tree, "tag", "-f", o.tag)
		}, "no section [1.2.3]"},
	}
}

// TestInvalidReleaseIsRefused checks that the check before a release refuses each change in invalidReleases.
func TestInvalidReleaseIsRefused(t *testing.T) {
	for _, tt := range invalidReleases() {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := checkout(t)
			tt.change(t, &o)
			if err := run(t.Context(), o, true); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("run(check only) error = %v, want one with %q", err, tt.want)
			}
		})
	}
}

// TestValidReleasePassesCheck checks a release with a key, and a dry run without one. The check must write nothing, and
// must accept files whose names begin with a dot, because no program contains them.
func TestValidReleasePassesCheck(t *testing.T) {
	o := checkout(t)
	writeFile(t, filepath.Join(o.tree, ".git", "info", "exclude"), ".editor\n")
	writeFile(t, filepath.Join(o.tree, ".editor", "state"), "open")
	writeFile(t, filepath.Join(o.tree, "docs", ".editor", "state"), "open")
	if err := run(t.Context(), o, true); err != nil {
		t.Errorf("run(check only) error = %v, want none", err)
	}
	o.key, o.tag, o.dryRun = "", "", true
	if err := run(t.Context(), o, true); err != nil {
		t.Errorf("run(check only) of a dry run: error = %v, want none", err)
	}
	if entries, err := os.ReadDir(o.out); err != nil || len(entries) > 0 {
		t.Errorf("the check has written %v, %v, want nothing", entries, err)
	}
}

// TestGoSettingsAreRead checks that goSettings returns each setting that changes programs, and ignores flags that do
// not change them.
func TestGoSettingsAreRead(t *testing.T) {
	workFile := filepath.Join(t.TempDir(), "go.work")
	writeFile(t, workFile, "go 1.26\n")
	changed := map[string]string{
		"GOFLAGS": "-ldflags=-X=a.b=c", "GOAMD64": "v3", "GOARM64": "v9.0", "GOEXPERIMENT": "fieldtrack",
		"GOFIPS140": "latest", "GOWORK": workFile,
	}
	for name, value := range changed {
		t.Setenv(name, value)
	}
	settings, err := goSettings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name := range releaseSettings {
		if settings[name] == releaseSettings[name] {
			t.Errorf("goSettings()[%s] = %q with %q in the environment, want another value", name, settings[name], changed[name])
		}
	}
	for name := range changed {
		t.Setenv(name, "")
	}
	t.Setenv("GOFLAGS", "-mod=readonly "+releaseSettings["GOFLAGS"]+" -p=2")
	t.Setenv("GOWORK", "off")
	t.Setenv("GOENV", "off")
	if settings, err = goSettings(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(releaseSettings, settings); diff != "" {
		t.Errorf("goSettings() of a machine without settings (-want +got): %s", diff)
	}
}

// TestReleaseReplacesUnfinishedOne makes a release after another release was killed. The files of the killed release
// must be gone. It also checks that two releases cannot be made at the same time.
func TestReleaseReplacesUnfinishedOne(t *testing.T) {
	o := checkout(t)
	for _, folder := range []string{"1.2.3.unfinished", "1.2.3.replaced", "1.2.3"} {
		writeFile(t, filepath.Join(o.out, folder, "left.tar"), "left")
	}
	lock := flock.New(filepath.Join(o.out, ".lock"))
	if locked, err := lock.TryLock(); err != nil || !locked {
		t.Fatalf("TryLock() = %t, %v, want true", locked, err)
	}
	if err := run(t.Context(), o, false); err == nil || !strings.Contains(err.Error(), "another release") {
		t.Errorf("run() during another release = %v, want an error with \"another release\"", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), o, false); err != nil {
		t.Fatal(err)
	}
	if got := files(t, o.releaseFolder()); got["left.tar"] != "" || strings.Contains(got[checksumsFile], "left.tar") {
		t.Errorf("%s = %s, want no left.tar in it or in the release", checksumsFile, got[checksumsFile])
	}
	entries, err := os.ReadDir(o.out)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name := e.Name(); name != "1.2.3" && name != ".lock" {
			t.Errorf("output folder has %s, want only 1.2.3 and .lock", name)
		}
	}
}

// TestHomeFolderIsExpanded checks that only ~/ at the beginning of a path stands for the home folder.
func TestHomeFolderIsExpanded(t *testing.T) {
	t.Setenv("HOME", "/somewhere/ann")
	for file, want := range map[string]string{
		"~/.ssh/key": "/somewhere/ann/.ssh/key", "key": "key",
		"~bob/key": "~bob/key", "a/~/key": "a/~/key", "": "",
	} {
		if got := expandHome(file); got != want {
			t.Errorf("expandHome(%q) = %q, want %q", file, got, want)
		}
	}
}

// TestUnknownSigningKeyIsRefused signs with a key that the checkout does not list, and checks that the release fails
// and the older release stays.
func TestUnknownSigningKeyIsRefused(t *testing.T) {
	o := checkout(t)
	older := filepath.Join(o.out, "1.2.3", "older")
	writeFile(t, older, "older")
	runCommand(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", o.key+"-other")
	o.key += "-other"
	if err := run(t.Context(), o, false); err == nil || !strings.Contains(err.Error(), allowedSigners) {
		t.Errorf("run(unknown key) = %v, want an error that names %s", err, allowedSigners)
	}
	if _, err := os.Stat(older); err != nil {
		t.Errorf("Stat(file of the older release) after a failed release = %v, want it kept", err)
	}
}

// TestMissingFileIsNamed checks that the error for a missing built file has its path.
func TestMissingFileIsNamed(t *testing.T) {
	for _, name := range []string{
		"gatewright-1.2.3-linux-amd64.tar.gz", "LICENSES.txt", "images/gatewright-relay.tar",
		"images/gatewright/index.json", "amd64/gatewright-server",
	} {
		o := checkout(t)
		file := filepath.Join(o.buildDir, filepath.FromSlash(name))
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := run(t.Context(), o, false); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("run(without %s) = %v, want an error with its path", name, err)
		}
	}
}

// TestComposeFileMatchesTheImage compares compose.yaml with the settings of the product and the intended use of its
// image.
func TestComposeFileMatchesTheImage(t *testing.T) {
	var file struct {
		Services map[string]struct {
			Image       string
			User        string
			ReadOnly    bool `yaml:"read_only"`
			Ports       []string
			Environment map[string]string
			Volumes     []string
		}
	}
	if err := yaml.Unmarshal([]byte(composeFile), &file); err != nil {
		t.Fatal(err)
	}
	s := file.Services["gatewright"]
	if s.Image != "gatewright:VERSION" {
		t.Errorf("image = %q, want gatewright:VERSION", s.Image)
	}
	if s.User != "65532:65532" || !s.ReadOnly {
		t.Errorf("user = %q and read_only = %t, want the image's user 65532:65532 and true", s.User, s.ReadOnly)
	}
	if diff := cmp.Diff([]string{"80:80", "443:443"}, s.Ports); diff != "" {
		t.Errorf("ports (-want +got): %s", diff)
	}
	if diff := cmp.Diff([]string{"gatewright:/var/lib/gatewright"}, s.Volumes); diff != "" {
		t.Errorf("volumes (-want +got): %s", diff)
	}
	var environ []string
	for name := range s.Environment {
		environ = append(environ, name+"=value")
	}
	if err := config.CheckNames(environ, true); err != nil || len(environ) == 0 {
		t.Errorf("CheckNames(%v) = %v, want no error for at least one setting of compose.yaml", environ, err)
	}
}
