package takeover_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/local/takeover"
)

func TestDataOfAnEarlierVersionIsTold(t *testing.T) {
	for _, test := range []struct {
		name  string
		files []string
		want  bool
	}{
		{"nothing", nil, false},
		{"a table", []string{"dynamodb/table.db"}, true},
		{"objects alone", []string{"s3/gatewright/uploads/x"}, true},
		{"a table's folder that was emptied", []string{"dynamodb/shm"}, true},
		{"this version's", []string{"engine/pebble/CURRENT", "objects/ab/abc", "root.key", "lock", "run.json"}, false},
		{"an older one that never began", []string{"root.key", "account-key", "logs/dynamodb.log"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range test.files {
				path := filepath.Join(dir, filepath.FromSlash(name))
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := takeover.Detect(dir); got != test.want {
				t.Errorf("Detect answers %t", got)
			}
			err := takeover.Refuse(dir)
			if (err != nil) != test.want || test.want && (!strings.Contains(err.Error(), "go run ./local import "+dir+"-old")) {
				t.Errorf("Refuse answers %v", err)
			}
		})
	}
	both := t.TempDir()
	for _, name := range []string{"engine", "dynamodb"} {
		if err := os.Mkdir(filepath.Join(both, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := takeover.Refuse(both); err == nil || !strings.Contains(err.Error(), "of this version (engine/) and of an earlier one (dynamodb/ or s3/)") {
		t.Errorf("Refuse(data of both versions) = %v, want an error that names the folders of both", err)
	}
	if takeover.Detect(filepath.Join(t.TempDir(), "absent")) {
		t.Error("a directory that is not there holds data")
	}
}
