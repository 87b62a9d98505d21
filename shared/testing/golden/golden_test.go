package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorder replaces *testing.T. Its Fatalf returns, so equal must not do anything that matters after a call of Fatalf.
type recorder struct{ failure string }

func (r *recorder) Helper()             {}
func (r *recorder) Logf(string, ...any) {}
func (r *recorder) Fatalf(format string, args ...any) {
	r.failure += fmt.Sprintf(format, args...)
}

func TestCompareFailsUnlessTheFileHoldsTheSameBytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list.txt")
	if err := os.WriteFile(path, []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, path, got, want string }{
		{"same", path, "one\ntwo\n", ""},
		{"different line", path, "one\nthree\n", "+three"},
		{"no last newline", path, "one\ntwo", "differs"},
		{"absent", path + ".absent", "one\n", "does not exist"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r recorder
			equal(&r, compare, c.path, []byte(c.got))
			if (r.failure == "") != (c.want == "") || !strings.Contains(r.failure, c.want) {
				t.Errorf("equal() failure = %q, want a failure that contains %q (\"\" means no failure)", r.failure, c.want)
			}
		})
	}
}

func TestUpdateWritesAFileThatCompareAccepts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "folder", "list.txt")
	var r recorder
	equal(&r, write, path, []byte("one\n"))
	equal(&r, compare, path, []byte("one\n"))
	if r.failure != "" {
		t.Errorf("equal(compare) after equal(write) fails: %s, want no failure", r.failure)
	}
}

func TestContinuousIntegrationNeverUpdates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list.txt")
	var r recorder
	equal(&r, refuse, path, []byte("one\n"))
	if r.failure == "" {
		t.Error("equal(refuse) does not fail, want a failure")
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("equal(refuse) writes the file, want no file")
	}
}

func TestFlagDecidesBetweenCompareAndWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list.txt")
	t.Setenv("CI", "")
	old := *update
	t.Cleanup(func() { *update = old })

	*update = true
	var r recorder
	Equal(&r, path, "one\n")
	*update = false
	Equal(&r, path, []byte("one\n"))
	if r.failure != "" {
		t.Errorf("Equal(same content) after Equal(-update) fails: %s, want no failure", r.failure)
	}
	Equal(&r, path, "two\n")
	if r.failure == "" {
		t.Error("Equal(different content) does not fail, want a failure")
	}

	*update = true
	t.Setenv("CI", "true")
	r = recorder{}
	Equal(&r, path, "two\n")
	if r.failure == "" {
		t.Error("Equal(-update in CI) does not fail, want a failure")
	}
}
