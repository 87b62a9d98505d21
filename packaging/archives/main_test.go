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

	"github.com/gatewright/gatewright/shared/release"
)

const tree = "../.."

// built writes texts in place of the binaries of a system, with a modification time, and returns their folder.
func built(t *testing.T, system string, mode os.FileMode, changed time.Time) string {
	t.Helper()
	binaries := t.TempDir()
	suffix := ""
	if strings.HasPrefix(system, "windows-") {
		suffix = ".exe"
	}
	for _, name := range []string{
		filepath.Join(strings.TrimPrefix(system, "linux-"), "gatewright"+suffix), filepath.Join(strings.TrimPrefix(system, "linux-"), "gatewright-server"+suffix),
		"LICENSES.txt", filepath.Join("man", "gatewright.1"),
	} {
		path := filepath.Join(binaries, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("a text\n"), mode), os.Chtimes(path, changed, changed)); err != nil {
			t.Fatal(err)
		}
	}
	return binaries
}

// packed makes the archive of a system and returns its path and what was printed.
func packed(t *testing.T, system string, mode os.FileMode, changed time.Time) (path, printed string) {
	t.Helper()
	out := t.TempDir()
	var says strings.Builder
	if err := write(tree, built(t, system, mode, changed), out, system, &says); err != nil {
		t.Fatal(err)
	}
	suffix := ".tar.gz"
	if strings.HasPrefix(system, "windows-") {
		suffix = ".zip"
	}
	return filepath.Join(out, "gatewright-"+release.Version()+"-"+system+suffix), says.String()
}

// TestArchiveIsUnpackedIntoPlace unpacks with tar, as an administrator does. tar prints nothing.
func TestArchiveIsUnpackedIntoPlace(t *testing.T) {
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
		path, _ := packed(t, system, 0o600, time.Now())
		root := t.TempDir()
		if out, err := exec.Command("tar", "-xzf", path, "-C", root, "--no-same-owner").CombinedOutput(); err != nil || len(out) > 0 {
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
			t.Errorf("the archive for %s: %s", system, diff)
		}
	}
}

// TestArchiveForWindowsIsAZipFile with one folder, in which the server finds its weights.
func TestArchiveForWindowsIsAZipFile(t *testing.T) {
	path, _ := packed(t, "windows-amd64", 0o600, time.Now())
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
		t.Error(diff)
	}
}

// TestTheSameBinaryIsTheSameArchive packs the same texts in other folders, of other times and other modes. The printed sum is
// one that sha256sum reads.
func TestTheSameBinaryIsTheSameArchive(t *testing.T) {
	for _, system := range []string{"linux-amd64", "darwin-arm64", "windows-arm64"} {
		one, printed := packed(t, system, 0o755, time.Unix(1, 0))
		another, _ := packed(t, system, 0o400, time.Now())
		a, errA := os.ReadFile(one)
		b, errB := os.ReadFile(another)
		if err := errors.Join(errA, errB); err != nil || !bytes.Equal(a, b) {
			t.Errorf("two archives for %s differ: %v", system, err)
		}
		if want := fmt.Sprintf("%x  %s\n", sha256.Sum256(a), one); printed != want {
			t.Errorf("write(%s) prints %q, want %q", system, printed, want)
		}
	}
}

// TestWhatIsNotBuiltIsNamed removes one file after the other.
func TestWhatIsNotBuiltIsNamed(t *testing.T) {
	for _, missing := range []string{filepath.Join("arm64", "gatewright"), filepath.Join("arm64", "gatewright-server"), "LICENSES.txt", filepath.Join("man", "gatewright.1")} {
		binaries := built(t, "linux-arm64", 0o600, time.Now())
		if err := os.Remove(filepath.Join(binaries, missing)); err != nil {
			t.Fatal(err)
		}
		if err := write(tree, binaries, t.TempDir(), "linux-arm64", io.Discard); err == nil || !strings.Contains(err.Error(), filepath.Join(binaries, missing)) {
			t.Errorf("write(without %s) = %v, want an error with its path", missing, err)
		}
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
