package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gatewright/gatewright/shared/release"
)

const tree = "../.."

// packed makes the archive of binaries that are texts.
func packed(t *testing.T, changed time.Time) (path, told string) {
	t.Helper()
	binaries, out := t.TempDir(), t.TempDir()
	for _, name := range []string{"gatewright", "gatewright-server"} {
		binary := filepath.Join(binaries, "arm64", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(binary), 0o755), os.WriteFile(binary, []byte("#!/bin/sh\n"), 0o700), os.Chtimes(binary, changed, changed)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(filepath.Join(binaries, "man"), 0o700), os.WriteFile(filepath.Join(binaries, "man", "gatewright.1"), []byte(".TH\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	var says strings.Builder
	if err := write(tree, binaries, out, "arm64", &says); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(out, "gatewright-"+release.Version()+"-linux-arm64.tar.gz"), says.String()
}

// TestArchiveIsUnpackedIntoPlace by tar, as an administrator does, without a word.
func TestArchiveIsUnpackedIntoPlace(t *testing.T) {
	path, _ := packed(t, time.Now())
	root := t.TempDir()
	if out, err := exec.Command("tar", "-xzf", path, "-C", root, "--no-same-owner").CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v: %s", err, out)
	}
	got := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		name, _ := filepath.Rel(root, path)
		got[filepath.ToSlash(name)] = info.Mode().String()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"usr/local/bin/gatewright":                         "-rwxr-xr-x",
		"usr/local/bin/gatewright-server":                  "-rwxr-xr-x",
		"usr/local/lib/systemd/system/gatewright@.service": "-rw-r--r--",
		"usr/local/share/man/man1/gatewright.1":            "-rw-r--r--",
		"usr/local/share/doc/gatewright/LICENSE":           "-rw-r--r--",
		"usr/local/share/doc/gatewright/NOTICE":            "-rw-r--r--",
		"usr/local/share/gatewright/minilm-l6-v2.weights":  "-rw-r--r--",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestTheSameBinaryIsTheSameArchive whenever it was built, and its sum is told as sha256sum reads it.
func TestTheSameBinaryIsTheSameArchive(t *testing.T) {
	one, told := packed(t, time.Unix(1, 0))
	another, _ := packed(t, time.Now())
	a, errA := os.ReadFile(one)
	b, errB := os.ReadFile(another)
	if err := errors.Join(errA, errB); err != nil || !bytes.Equal(a, b) {
		t.Errorf("the archives differ: %v", err)
	}
	if want := fmt.Sprintf("%x  %s\n", sha256.Sum256(a), one); told != want {
		t.Errorf("it tells %q, want %q", told, want)
	}
}

// TestWhatIsNotBuiltIsNamed with its path.
func TestWhatIsNotBuiltIsNamed(t *testing.T) {
	binaries := t.TempDir()
	if err := write(tree, binaries, t.TempDir(), "arm64", io.Discard); err == nil || !strings.Contains(err.Error(), filepath.Join(binaries, "arm64", "gatewright")) {
		t.Errorf("error %v", err)
	}
}

// instance writes the unit for a domain into a folder, with a program that there is on every machine in
// place of the product, which systemd looks for.
func instance(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(tree, "packaging", "systemd", "gatewright@.service"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(raw), "/usr/local/bin/gatewright-server ", "/bin/true ", 1)
	if text == string(raw) {
		t.Fatal("the unit starts no /usr/local/bin/gatewright-server")
	}
	path := filepath.Join(t.TempDir(), "gatewright@my-shop.example.com.service")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// analyze asks systemd about a unit, which needs no systemd that runs.
func analyze(t *testing.T, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("systemd-analyze has to be installed in continuous integration")
		}
		t.Skip("it needs systemd-analyze, of systemd")
	}
	out, err := exec.Command("systemd-analyze", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("systemd-analyze %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestUnitIsUnderstood by systemd, every line of it.
func TestUnitIsUnderstood(t *testing.T) {
	if out := analyze(t, "verify", "--man=no", "--recursive-errors=no", instance(t)); out != "" {
		t.Errorf("systemd says of the unit: %s", out)
	}
}

// mostExposure is in tenths of what systemd-analyze scores: 1.5 as it is, of 10.0 for a service that may everything.
const mostExposure = "15"

// TestUnitIsConfined to what it needs, by systemd's own score.
func TestUnitIsConfined(t *testing.T) {
	analyze(t, "security", "--offline=true", "--no-pager", "--threshold="+mostExposure, instance(t))
}

// TestUnitLetsBuildsBoundTheirMemory and lock their files, which are calls to the system that a stricter unit
// would refuse: the filter is what the unit says, and what systemd means by its groups.
func TestUnitLetsBuildsBoundTheirMemory(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(tree, "packaging", "systemd", "gatewright@.service"))
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string]bool{}
	for line := range strings.SplitSeq(string(raw), "\n") {
		groups, ok := strings.CutPrefix(line, "SystemCallFilter=")
		if !ok {
			continue
		}
		groups, refused := strings.CutPrefix(groups, "~")
		for group := range strings.FieldsSeq(groups) {
			for _, call := range calls(t, group) {
				allowed[call] = !refused
			}
		}
	}
	if len(allowed) < 100 || allowed["reboot"] || allowed["mount"] {
		t.Fatalf("the unit filters nothing, or it is read wrongly: %d calls", len(allowed))
	}
	for _, call := range []string{"setrlimit", "prlimit64", "clone", "execve", "pipe2", "kill", "flock", "fsync", "ftruncate", "mmap", "bind", "accept4"} {
		if !allowed[call] {
			t.Errorf("the unit refuses %s", call)
		}
	}
}

// calls are the system calls of a group, and of those within it.
func calls(t *testing.T, group string) (all []string) {
	t.Helper()
	if !strings.HasPrefix(group, "@") {
		return []string{group}
	}
	for line := range strings.SplitSeq(analyze(t, "syscall-filter", "--no-pager", group), "\n") {
		name := strings.TrimSpace(line)
		if name == "" || name == group || strings.HasPrefix(name, "#") {
			continue
		}
		all = append(all, calls(t, name)...)
	}
	return all
}
