package preflight_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gatewright/gatewright/local/preflight"
)

// TestDataOfEmulatorsAreRefused checks that a directory with any part
// of the emulators' data is refused, even if the other part is missing.
func TestDataOfEmulatorsAreRefused(t *testing.T) {
	const suffix = "/, the data of an emulator: a run with GATEWRIGHT_FUNCTIONS or a version before the first release " +
		"has written them, " +
		"and this run does not read them: name another directory in GATEWRIGHT_DATA_DIR, or move "
	for _, c := range []struct {
		name string
		file string
		want string // the folder in the error, "" for no error
	}{
		{"an empty directory", "", ""},
		{"a table", "dynamodb/table.db", "dynamodb"},
		{"a folder of the table without its database", "dynamodb/shm", "dynamodb"},
		{"objects alone", "s3/gatewright/uploads/x", "s3"},
		{"data of this version", "engine/pebble/CURRENT", ""},
		{"the log of an emulator whose start failed", "logs/dynamodb.log", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if c.file != "" {
				path := filepath.Join(dir, filepath.FromSlash(c.file))
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got := ""
			if err := preflight.RefuseEmulators(dir); err != nil {
				got = err.Error()
			}
			want := ""
			if c.want != "" {
				want = dir + " holds " + c.want + suffix + c.want + "/ away"
			}
			if got != want {
				t.Errorf("RefuseEmulators() = %q, want %q", got, want)
			}
		})
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"absent": filepath.Join(t.TempDir(), "absent"), "a file": self} {
		if err := preflight.RefuseEmulators(dir); err != nil {
			t.Errorf("RefuseEmulators(%s) = %v, want nil", name, err)
		}
	}
}
