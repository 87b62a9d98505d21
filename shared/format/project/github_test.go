package project_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// githubDescription returns the OpenAPI description of the GitHub REST API with x-gateway-route
// added to every operation. It skips the test if the description is not installed, except in
// continuous integration. The description is a development dependency of the local run.
func githubDescription(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("../../../local/dev/node_modules/@octokit/openapi/generated/api.github.com.json")
	if errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") == "" {
		t.Skip("the GitHub description is not there: npm ci --prefix local/dev installs it")
	}
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	for _, item := range doc["paths"].(map[string]any) {
		for method, operation := range item.(map[string]any) {
			switch method {
			case "get", "put", "post", "delete", "options", "head", "patch", "trace":
				operation.(map[string]any)["x-gateway-route"] = map[string]any{
					"corsPolicy": "none",
					"handler": map[string]any{
						"export":  "urlForwardHandler",
						"module":  "$import(@gatewright/runtime)",
						"options": map[string]any{"baseUrl": "http://127.0.0.1:9002"},
					},
					"policies": map[string]any{"inbound": []string{"key"}},
				}
			}
		}
	}
	out, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestGitHubDescriptionCompiles(t *testing.T) {
	simulations.SkipUnderRace(t)
	files := project.Files{
		"config/routes.oas.json": githubDescription(t),
		"config/policies.json": []byte(`{"policies": [{"name": "key", "policyType": "api-key-inbound",
			"handler": {"export": "ApiKeyInboundPolicy", "module": "$import(@gatewright/runtime)", "options": {}}}]}`),
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	artifact, result := compile(t, files, project.Input{Catalog: catalog{}})
	elapsed := time.Since(start)
	runtime.ReadMemStats(&after)
	if len(result.Errors) > 0 {
		t.Fatalf("errors = %d, first %+v, want none", len(result.Errors), result.Errors[0])
	}
	if len(result.Warnings) > 0 {
		t.Errorf("warnings = %d, first %+v, want none", len(result.Warnings), result.Warnings[0])
	}
	if got, want := len(artifact.Routes), 1223; got != want {
		t.Errorf("routes of the artifact = %d, want %d", got, want)
	}
	data, _, err := project.Encode(artifact, project.WrittenFormat)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("compiled %d MB in %v, allocating %d MB in all; the artifact has %d kB",
		len(files["config/routes.oas.json"])>>20, elapsed.Round(time.Millisecond), (after.TotalAlloc-before.TotalAlloc)>>20,
		len(data)>>10)
	for format := project.OldestFormat; format <= project.ArtifactFormat; format++ {
		data, _, err := project.Encode(artifact, format)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("in format %d it has %d kB", format, len(data)>>10)
	}
}
