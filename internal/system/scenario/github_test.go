package scenario_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// varDecodedPaths is the variable for installations in an emulator that decodes paths before it passes them to
// functions (MiniStack).
const varDecodedPaths = "GATEWRIGHT_SCENARIO_DECODED_PATHS"

// methods are the operations that OpenAPI allows for a path.
var methods = []string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}

// githubOperation is an operation of GitHub's API description.
type githubOperation struct{ method, path, id string }

// TestGitHubDescriptionIsServed deploys a real description with 811 paths and 1,223 operations, and calls every operation. Each operation
// is rewritten to its own path, so that the upstream's response shows which operation was called.
func TestGitHubDescriptionIsServed(t *testing.T) {
	t.Parallel()
	inst, upstream := installation, newUpstream(t)
	document := githubDescription(t)
	paths, _ := document["paths"].(map[string]any)
	operations := routeTo(upstream, paths)
	if len(paths) != 811 || len(operations) != 1223 {
		t.Fatalf("GitHub's description has %d paths and %d operations, want 811 and 1223", len(paths), len(operations))
	}
	routes, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	name := unique(t, "github")
	address := deployLarge(t, inst, name, archive(t, files{
		"config/routes.oas.json": string(routes),
		"config/policies.json":   `{"policies":[` + apiKey("key", "") + `],"corsPolicies":[]}`,
	}))
	consumer := inst.ask(t, http.StatusOK, http.MethodPost,
		inst.path("/key-buckets/%s-production/consumers?with-api-key=true", name), `{"name":"octocat"}`)
	keys, _ := consumer["apiKeys"].([]any)
	first, _ := keys[0].(map[string]any)
	key := object(first).text("key")

	fill := pathFiller(paths)
	var group sync.WaitGroup
	limit := make(chan struct{}, 8)
	for _, o := range operations {
		limit <- struct{}{}
		group.Go(func() {
			defer func() { <-limit }()
			resp := inst.call(t, o.method, address+fill(o.path), nil, http.Header{"Authorization": {"Bearer " + key}})
			var e echo
			if err := json.NewDecoder(resp.Body).Decode(&e); err != nil || resp.StatusCode != http.StatusOK {
				t.Errorf("%s %s: status = %d, error %v, want 200 with an echo", o.method, o.path, resp.StatusCode, err)
				return
			}
			if got, err := url.PathUnescape(strings.TrimPrefix(e.Path, "/")); err != nil || got != o.id || e.Method != o.method {
				t.Errorf("%s %s: the upstream received %s %s (%v), want %s %s", o.method, o.path, e.Method, got, err, o.method,
					o.id)
			}
		})
	}
	group.Wait()
}

// githubDescription reads the description. It skips the test if npm has not installed the description.
func githubDescription(t *testing.T) (document map[string]any) {
	t.Helper()
	raw, err := os.ReadFile("../../../local/dev/node_modules/@octokit/openapi/generated/api.github.com.json")
	if errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") == "" {
		t.Skip("the GitHub description is not there: npm ci --prefix local/dev installs it")
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		t.Fatal(err)
	}
	return document
}

// routeTo routes each operation to its own path at the upstream, with a policy that requires a key. It returns the operations.
func routeTo(upstream string, paths map[string]any) (operations []githubOperation) {
	for path, item := range paths {
		for method, o := range item.(map[string]any) {
			if !slices.Contains(methods, method) {
				continue
			}
			o, _ := o.(map[string]any)
			id, _ := o["operationId"].(string)
			operations = append(operations, githubOperation{strings.ToUpper(method), path, id})
			o["x-gateway-route"] = map[string]any{
				"corsPolicy": "none",
				"handler": map[string]any{
					"export": "urlRewriteHandler", "module": "$import(@gatewright/runtime)",
					"options": map[string]any{"rewritePattern": upstream + "/" + url.PathEscape(id)},
				},
				"policies": map[string]any{"inbound": []string{"key"}},
			}
		}
	}
	return operations
}

// deployLarge deploys an archive, and returns the address of the deployment.
func deployLarge(t *testing.T, inst *target, name string, packed []byte) string {
	t.Helper()
	var status object
	// retry a build that exceeds its time budget: other suites on this machine can build the same project at this
	// moment
	for range 3 {
		startedAt := time.Now()
		id, _ := inst.upload(t, name, "main", packed)
		status = inst.awaitBuild(t, name, id)
		t.Logf("uploaded and built in %s", time.Since(startedAt).Round(time.Millisecond))
		if !strings.Contains(fmt.Sprint(status), `over the budget "time"`) {
			break
		}
	}
	if status.text("status") != "SUCCESS" {
		t.Fatalf("the build has ended with %v, want SUCCESS", status)
	}
	return status.text("url")
}

// pathFiller returns a function that puts values into a path's parameters. A value contains an escaped slash, unless
// the path with the decoded slash matches another path of the project.
func pathFiller(paths map[string]any) func(path string) string {
	// If the platform decodes paths, an escaped slash separates two segments, so use no slash.
	value := "some%2Fvalue"
	if os.Getenv(varDecodedPaths) != "" {
		value = "some%20value"
	}
	parameter := regexp.MustCompile(`\{[^}]+\}`)
	shapes := map[int][]*regexp.Regexp{} // patterns of the paths, by the number of their slashes
	for path := range paths {
		n := strings.Count(path, "/")
		shapes[n] = append(shapes[n], regexp.MustCompile("^"+parameter.ReplaceAllString(path, "[^/]+")+"$"))
	}
	return func(template string) string {
		path := parameter.ReplaceAllString(template, value)
		decoded := strings.ReplaceAll(path, "%2F", "/")
		matchesOther := func(shape *regexp.Regexp) bool { return shape.MatchString(decoded) }
		if path != template && slices.ContainsFunc(shapes[strings.Count(decoded, "/")], matchesOther) {
			// With the slash decoded, it would be another path of the project, and the gateway refuses such a path.
			return parameter.ReplaceAllString(template, "some%20value")
		}
		return path
	}
}
