package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// writeSynthesized writes the CDK's output for a stack with two resources to a folder, and returns the folder's path.
// assets is the content of the file of assets.
func writeSynthesized(t *testing.T, assets string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"gatewright-dev.template.json": `{"Resources": {
			"Table": {"Type": "AWS::DynamoDB::Table"}, "Live": {"Type": "AWS::Lambda::Alias"}}, "Outputs": {"TableName": {}}}`,
		"gatewright-dev.assets.json": assets,
		"manifest.json":              `{"url": "s3://assets/` + strings.Repeat("a", 64) + `.json"}`,
		"asset.code":                 "a function",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestFailingResourceIsCreatedLast checks that the failing resource is created after all others. The
// failing version's template must have another name, because the CDK uploads each name only once.
func TestFailingResourceIsCreatedLast(t *testing.T) {
	name := strings.Repeat("a", 64)
	texts, err := failingFiles(writeSynthesized(t, `{"files": {"`+name+`": {
		"displayName": "gatewright-dev Template", "objectKey": "`+name+`.json"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	var template struct {
		Resources map[string]struct{ DependsOn []string }
		Outputs   map[string]any
	}
	if err := json.Unmarshal([]byte(texts["gatewright-dev.template.json"]), &template); err != nil {
		t.Fatal(err)
	}
	if got := template.Resources[failingResource].DependsOn; !slices.Equal(got, []string{"Live", "Table"}) {
		t.Errorf("dependencies of %s = %v, want Live and Table", failingResource, got)
	}
	if len(template.Resources) != 4 || template.Outputs["TableName"] == nil {
		t.Errorf("failing version's template = %v, want 4 resources and the output TableName", template)
	}
	for _, file := range []string{"gatewright-dev.assets.json", "manifest.json"} {
		if strings.Contains(texts[file], name) || len(texts[file]) == 0 {
			t.Errorf("%s = %s, want no reference to %s", file, texts[file], name)
		}
	}
	if len(texts) != 3 {
		t.Errorf("failingFiles() changes %d files, want 3", len(texts))
	}
	if _, err := failingFiles(writeSynthesized(t, `{"files": {}}`)); err == nil ||
		!strings.Contains(err.Error(), "failing.go") {
		t.Errorf("failingFiles(unknown format) = %v, want an error with failing.go", err)
	}
}

// TestUnknownVersionErrorIsOneLine checks that redeploy returns a one-line
// error for an unknown version, without a request to the emulator.
func TestUnknownVersionErrorIsOneLine(t *testing.T) {
	t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
	if err := redeploy(t.Context(), t.TempDir(), "yesterday"); err == nil ||
		!strings.Contains(err.Error(), "make test-update") || strings.Contains(err.Error(), "\n") {
		t.Errorf("redeploy(unknown version) = %v, want one line with \"make test-update\"", err)
	}
}
