package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestErrorsOfEachSystemAreReported checks that errors of a system are reported in a package, in its tests, and in a package that it
// imports. Errors of other systems are not reported.
func TestErrorsOfEachSystemAreReported(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.26\n\nrequire example.com/library v0.0.0\n\nreplace " +
			"example.com/library => ./library\n",
		"here.go": "package m\n\nimport (\n\t\"os\"\n\n\t\"example.com/library\"\n)\n\nvar _ = " +
			"library.Kill\n\nfunc pid() int { return os.Getpid() }\n",
		"on_windows.go":  "package m\n\nfunc own() int { return pid() + nowhere }\n",
		"on_linux.go":    "package m\n\nfunc own() int { return pid() }\n",
		"here_test.go":   "package m\n\nimport \"syscall\"\n\nfunc kill() error { return syscall.Kill(own(), 0) }\n",
		"library/go.mod": "module example.com/library\n\ngo 1.26\n",
		"library/kill.go": "package library\n\nimport \"syscall\"\n\n// Kill is a function of Unix.\nfunc Kill() error { " +
			"return syscall.Kill(1, 0) }\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for system, want := range map[string][]string{
		"linux-amd64": nil, "darwin-arm64": {"undefined: own"},
		"windows-amd64": {
			"here_test.go:5:36: undefined: syscall.Kill", "on_windows.go:3:33: undefined: nowhere",
			"kill.go:6:36: undefined: syscall.Kill",
		},
	} {
		found, err := check(dir, system, []string{"."})
		if err != nil {
			t.Fatal(err)
		}
		all := strings.Join(found, "\n")
		for _, text := range want {
			if !strings.Contains(all, text) {
				t.Errorf("check(%s) = %q, want %q in it", system, all, text)
			}
		}
		if len(found) != len(want) {
			t.Errorf("check(%s) = %d errors, want %d: %s", system, len(found), len(want), all)
		}
	}
	if found, err := check(dir, "linux-amd64", []string{"./nothing"}); err == nil && len(found) == 0 {
		t.Error("check of a package that does not exist = nil, want an error")
	}
	if found, err := check(dir, "plan10-amd64", []string{"."}); err == nil && len(found) == 0 {
		t.Error("check for a system that does not exist = nil, want an error")
	}
}

func TestArgumentsSplitsSystemsAndPackages(t *testing.T) {
	systems, patterns, err := arguments([]string{"windows-amd64", "darwin-arm64", "--", "./local", "./cmd/..."})
	if err != nil || strings.Join(systems, " ") != "windows-amd64 darwin-arm64" ||
		strings.Join(patterns, " ") != "./local ./cmd/..." {
		t.Errorf("arguments() = %v, %v, %v, want two systems, two packages and no error", systems, patterns, err)
	}
	for _, args := range []string{
		"", "--", "windows-amd64", "windows-amd64 --", "-- ./local", "windows -- ./local",
		"./local -- windows-amd64",
	} {
		if _, _, err := arguments(strings.Fields(args)); err == nil {
			t.Errorf("arguments(%q) = nil, want an error", args)
		}
	}
}
