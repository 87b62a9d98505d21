package project

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestSchemasLoadInDeletedDirectory loads the schemas in a working folder
// that was deleted. Relative names cannot be resolved in such a folder.
func TestSchemasLoadInDeletedDirectory(t *testing.T) {
	deletedDir := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(deletedDir, 0o750); err != nil {
		t.Fatal(err)
	}
	t.Chdir(deletedDir)
	if err := os.Remove(deletedDir); err != nil {
		t.Skip("this system keeps the folder that a process is in")
	}
	if _, err := loadSchemas(); err != nil {
		t.Errorf("loadSchemas() error = %v, want none", err)
	}
}

// TestEveryPatternHasDescription checks that patternDescriptions describes
// each pattern of the schemas: few readers understand the pattern itself.
func TestEveryPatternHasDescription(t *testing.T) {
	files, err := fs.Glob(schemaFiles, "schemas/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("Glob() = %d schemas, %v, want some and no error", len(files), err)
	}
	used := map[string]bool{}
	for _, name := range files {
		data, err := schemaFiles.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var tree any
		if err := json.Unmarshal(data, &tree); err != nil {
			t.Fatal(err)
		}
		for _, pattern := range collectPatterns(tree) {
			used[pattern] = true
			if patternDescriptions[pattern] == "" {
				t.Errorf("%s: description of the pattern %s = none, want one in patternDescriptions", name, pattern)
			}
		}
	}
	for pattern := range patternDescriptions {
		if !used[pattern] {
			t.Errorf("patternDescriptions has %s, want only patterns of a schema", pattern)
		}
	}
}

func collectPatterns(tree any) (found []string) {
	switch v := tree.(type) {
	case map[string]any:
		for name, child := range v {
			if text, ok := child.(string); ok && name == "pattern" {
				found = append(found, text)
			}
			found = append(found, collectPatterns(child)...)
		}
	case []any:
		for _, child := range v {
			found = append(found, collectPatterns(child)...)
		}
	}
	return found
}
