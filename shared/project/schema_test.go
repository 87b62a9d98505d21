package project

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestSchemasAreReadWhereverTheProcessIs: in a folder that is gone too, where a name alone would be that of no file.
func TestSchemasAreReadWhereverTheProcessIs(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(gone, 0o750); err != nil {
		t.Fatal(err)
	}
	t.Chdir(gone)
	if err := os.Remove(gone); err != nil {
		t.Skip("this system keeps the folder that a process is in")
	}
	if _, err := loadSchemas(); err != nil {
		t.Error(err)
	}
}

// TestEveryPatternIsToldInWords: a pattern tells a reader little.
func TestEveryPatternIsToldInWords(t *testing.T) {
	files, err := fs.Glob(schemaFiles, "schemas/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d schemas: %v", len(files), err)
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
		for _, pattern := range patternsIn(tree) {
			used[pattern] = true
			if patternWords[pattern] == "" {
				t.Errorf("%s has the pattern %s, which patternWords does not tell", name, pattern)
			}
		}
	}
	for pattern := range patternWords {
		if !used[pattern] {
			t.Errorf("no schema has the pattern %s", pattern)
		}
	}
}

func patternsIn(tree any) (found []string) {
	switch v := tree.(type) {
	case map[string]any:
		for name, child := range v {
			if text, ok := child.(string); ok && name == "pattern" {
				found = append(found, text)
			}
			found = append(found, patternsIn(child)...)
		}
	case []any:
		for _, child := range v {
			found = append(found, patternsIn(child)...)
		}
	}
	return found
}
