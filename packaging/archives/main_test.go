package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gatewright/gatewright/shared/base/release"
)

const tree = "../.."

// writeBinaries writes texts in place of the binaries of a system, with a modification time, and returns their folder.
func writeBinaries(t *testing.T, system string, mode os.FileMode, modTime time.Time) string {
	t.Helper()
	binaries := t.TempDir()
	suffix := ""
	if strings.HasPrefix(system, "windows-") {
		suffix = ".exe"
	}
	for _, name := range []string{
		filepath.Join(strings.TrimPrefix(system, "linux-"), "gatewright"+suffix),
		filepath.Join(strings.TrimPrefix(system, "linux-"), "gatewright-server"+suffix),
		"LICENSES.txt", filepath.Join("man", "gatewright.1"),
	} {
		path := filepath.Join(binaries, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("a text\n"), mode),
			os.Chtimes(path, modTime, modTime)); err != nil {
			t.Fatal(err)
		}
	}
	return binaries
}

// packArchive makes the archive for a system, and returns its path and the output of write.
func packArchive(t *testing.T, system string, mode os.FileMode, modTime time.Time) (path, output string) {
	t.Helper()
	out := t.TempDir()
	var buf strings.Builder
	if err := write(tree, writeBinaries(t, system, mode, modTime), out, system, &buf); err != nil {
		t.Fatal(err)
	}
	suffix := ".tar.gz"
	if strings.HasPrefix(system, "windows-") {
		suffix = ".zip"
	}
	return filepath.Join(out, "gatewright-"+release.Version()+"-"+system+suffix), buf.String()
}

// TestArchiveUnpacksIntoPlace unpacks the archive with tar, as an administrator does. It checks the paths and modes of
// the files, and that tar prints no warning.
func TestArchiveUnpacksIntoPlace(t *testing.T) {
	shared := map[string]string{
		"usr/local/bin/gatewright":                        "-rwxr-xr-x",
		"usr/local/bin/gatewright-server":                 "-rwxr-xr-x",
		"usr/local/share/man/man1/gatewright.1":           "-rw-r--r--",
		"usr/local/share/doc/gatewright/LICENSE":          "-rw-r--r--",
		"usr/local/share/doc/gatewright/NOTICE":           "-rw-r--r--",
		"usr/local/share/doc/gatewright/LICENSES.txt":     "-rw-r--r--",
		"usr/local/share/gatewright/minilm-l6-v2.weights": "-rw-r--r--",
	}
	linux := maps.Clone(shared)
	linux["usr/local/lib/systemd/system/gatewright@.service"] = "-rw-r--r--"
	for system, want := range map[string]map[string]string{"linux-arm64": linux, "darwin-amd64": shared} {
		path, _ := packArchive(t, system, 0o600, time.Now())
		root := t.TempDir()
		if out, err := exec.Command("tar", "-xzf", path, "-C", root, "--no-same-owner").CombinedOutput(); err != nil ||
			len(out) > 0 {
			t.Fatalf("tar -xzf of %s = %v, and prints %q, want nothing", system, err, out)
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
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("archive for %s (-want +got): %s", system, diff)
		}
	}
}

// TestArchiveForWindowsIsAZipFile checks that the archive has one folder, where the server finds its weights.
func TestArchiveForWindowsIsAZipFile(t *testing.T) {
	path, _ := packArchive(t, "windows-amd64", 0o600, time.Now())
	z, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = z.Close() })
	var got []string
	for _, f := range z.File {
		got = append(got, strings.TrimPrefix(f.Name, "gatewright-"+release.Version()+"-windows-amd64/"))
	}
	want := []string{
		"bin/gatewright.exe", "bin/gatewright-server.exe", "share/gatewright/minilm-l6-v2.weights",
		"share/doc/gatewright/LICENSE", "share/doc/gatewright/NOTICE", "share/doc/gatewright/LICENSES.txt",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files of the archive for Windows (-want +got):\n%s", diff)
	}
}

// TestArchiveIsReproducible packs the same texts from other folders, with other times and other modes. The printed
// checksum must have the format of sha256sum.
func TestArchiveIsReproducible(t *testing.T) {
	for _, system := range []string{"linux-amd64", "darwin-arm64", "windows-arm64"} {
		first, output := packArchive(t, system, 0o755, time.Unix(1, 0))
		second, _ := packArchive(t, system, 0o400, time.Now())
		a, errA := os.ReadFile(first)
		b, errB := os.ReadFile(second)
		if err := errors.Join(errA, errB); err != nil || !bytes.Equal(a, b) {
			t.Errorf("two archives for %s differ (error %v), want the same bytes", system, err)
		}
		if want := fmt.Sprintf("%x  %s\n", sha256.Sum256(a), first); output != want {
			t.Errorf("write(%s) prints %q, want %q", system, output, want)
		}
	}
}

// TestMissingFileIsNamed checks that the error of write names a missing file.
func TestMissingFileIsNamed(t *testing.T) {
	for _, missing := range []string{
		filepath.Join("arm64", "gatewright"), filepath.Join("arm64", "gatewright-server"),
		"LICENSES.txt", filepath.Join("man", "gatewright.1"),
	} {
		binaries := writeBinaries(t, "linux-arm64", 0o600, time.Now())
		if err := os.Remove(filepath.Join(binaries, missing)); err != nil {
			t.Fatal(err)
		}
		if err := write(tree, binaries, t.TempDir(), "linux-arm64", io.Discard); err == nil ||
			!strings.Contains(err.Error(), filepath.Join(binaries, missing)) {
			t.Errorf("write(without %s) = %v, want an error with its path", missing, err)
		}
	}
}

// writeUnit writes the unit for a domain into a folder. The unit starts a program that every machine has, because
// systemd checks that the program exists.
func writeUnit(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(tree, "packaging", "systemd", "gatewright@.service"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(raw), "/usr/local/bin/gatewright-server ", "/bin/true ", 1)
	if text == string(raw) {
		t.Fatal("the unit does not start /usr/local/bin/gatewright-server, want it to")
	}
	path := filepath.Join(t.TempDir(), "gatewright@my-shop.example.com.service")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// analyze runs systemd-analyze, which does not need a running systemd, and returns its output. It skips the test if
// systemd-analyze is not installed, except in continuous integration.
func analyze(t *testing.T, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("systemd-analyze is not installed, want it in continuous integration")
		}
		t.Skip("systemd-analyze, which is part of systemd, is not installed")
	}
	out, err := exec.Command("systemd-analyze", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("systemd-analyze %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestUnitVerifies checks that systemd understands every line of the unit.
func TestUnitVerifies(t *testing.T) {
	if out := analyze(t, "verify", "--man=no", "--recursive-errors=no", writeUnit(t)); out != "" {
		t.Errorf("systemd-analyze verify = %s, want no output", out)
	}
}

// maxExposure is the maximum score of systemd-analyze in tenths. The unit has 1.5, and a service with full access has
// 10.0.
const maxExposure = "15"

// TestUnitIsConfined checks the score that systemd-analyze calculates for the unit's restrictions.
func TestUnitIsConfined(t *testing.T) {
	analyze(t, "security", "--offline=true", "--no-pager", "--threshold="+maxExposure, writeUnit(t))
}

// TestUnitAllowsCallsOfBuilds checks that builds can limit their memory and lock their files. A stricter unit would
// reject these system calls. The allowed calls follow from the unit's lines and from systemd's definitions of the
// groups. They do not include reboot and mount.
func TestUnitAllowsCallsOfBuilds(t *testing.T) {
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
		groups, isDenied := strings.CutPrefix(groups, "~")
		for group := range strings.FieldsSeq(groups) {
			for _, call := range calls(t, group) {
				allowed[call] = !isDenied
			}
		}
	}
	if len(allowed) < 100 || allowed["reboot"] || allowed["mount"] {
		t.Fatalf("the unit allows %d calls (reboot %t, mount %t), want 100 or more without reboot and mount",
			len(allowed), allowed["reboot"], allowed["mount"])
	}
	for _, call := range []string{
		"setrlimit", "prlimit64", "clone", "execve", "pipe2", "kill", "flock", "fsync",
		"ftruncate", "mmap", "bind", "accept4",
	} {
		if !allowed[call] {
			t.Errorf("the unit refuses %s, want it allowed", call)
		}
	}
}

// calls returns the system calls of a group, including the calls of nested groups. A name without @ is a call.
func calls(t *testing.T, group string) (names []string) {
	t.Helper()
	if !strings.HasPrefix(group, "@") {
		return []string{group}
	}
	for line := range strings.SplitSeq(analyze(t, "syscall-filter", "--no-pager", group), "\n") {
		name := strings.TrimSpace(line)
		if name == "" || name == group || strings.HasPrefix(name, "#") {
			continue
		}
		names = append(names, calls(t, name)...)
	}
	return names
}
