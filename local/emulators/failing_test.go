package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// synthesised writes what the CDK does of a stack with two resources.
func synthesised(t *testing.T, uploads string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"gatewright-dev.template.json": `{"Resources": {"Table": {"Type": "AWS::DynamoDB::Table"}, "Live": {"Type": "AWS::Lambda::Alias"}}, "Outputs": {"TableName": {}}}`,
		"gatewright-dev.assets.json":   uploads,
		"manifest.json":                `{"url": "s3://assets/` + strings.Repeat("a", 64) + `.json"}`,
		"asset.code":                   "a function",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestVersionThatFailsFailsAtLast: with all that the version has made and released, and under another name, since the CDK uploads
// nothing twice.
func TestVersionThatFailsFailsAtLast(t *testing.T) {
	name := strings.Repeat("a", 64)
	texts, err := broken(synthesised(t, `{"files": {"`+name+`": {
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
	if got := template.Resources[refused].DependsOn; !slices.Equal(got, []string{"Live", "Table"}) || len(template.Resources) != 4 || template.Outputs["TableName"] == nil {
		t.Errorf("it fails after %v, and the template is %v", got, template)
	}
	for _, file := range []string{"gatewright-dev.assets.json", "manifest.json"} {
		if strings.Contains(texts[file], name) || len(texts[file]) == 0 {
			t.Errorf("%s leads to the version that does not fail: %s", file, texts[file])
		}
	}
	if len(texts) != 3 {
		t.Errorf("%d files are others", len(texts))
	}
	if _, err := broken(synthesised(t, `{"files": {}}`)); err == nil || !strings.Contains(err.Error(), "failing.go") {
		t.Errorf("files of another form are taken: %v", err)
	}
}

// TestVersionThatThereIsNotIsOneLine, and asks the emulator for nothing.
func TestVersionThatThereIsNotIsOneLine(t *testing.T) {
	t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
	if err := redeploy(t.Context(), t.TempDir(), "yesterday"); err == nil || !strings.Contains(err.Error(), "make test-update") || strings.Contains(err.Error(), "\n") {
		t.Errorf("it is answered with %v", err)
	}
}
