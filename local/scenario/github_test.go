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

// varDecodedPaths says that the installation's emulator decodes paths before it
// hands them to functions (MiniStack).
const varDecodedPaths = "GATEWRIGHT_SCENARIO_DECODED_PATHS"

// methods are the operations that a path of OpenAPI may have.
var methods = []string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}

// TestGitHubDescriptionIsServed deploys a real description, 811 paths with 1,223
// operations, and calls every one of them: the upstream tells which operation it
// was, since each is rewritten to a path of its own.
func TestGitHubDescriptionIsServed(t *testing.T) {
	t.Parallel()
	in, upstream := installation, newUpstream(t)
	raw, err := os.ReadFile("../node_modules/@octokit/openapi/generated/api.github.com.json")
	if errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") == "" {
		t.Skip("the GitHub description is not there: npm ci --prefix local installs it")
	}
	if err != nil {
		t.Fatal(err)
	}
	var document map[string]any
	if err := json.Unmarshal(raw, &document); err != nil {
		t.Fatal(err)
	}
	type operation struct{ method, path, id string }
	var operations []operation
	paths, _ := document["paths"].(map[string]any)
	for path, item := range paths {
		for method, o := range item.(map[string]any) {
			if !slices.Contains(methods, method) {
				continue
			}
			o, _ := o.(map[string]any)
			id, _ := o["operationId"].(string)
			operations = append(operations, operation{strings.ToUpper(method), path, id})
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
	if len(paths) != 811 || len(operations) != 1223 {
		t.Fatalf("%d paths and %d operations", len(paths), len(operations))
	}
	routes, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	name := unique(t, "github")
	packed := archive(t, files{
		"config/routes.oas.json": string(routes),
		"config/policies.json":   `{"policies":[` + apiKey("key", "") + `],"corsPolicies":[]}`,
	})
	var status object
	for range 3 { // a machine on which other suites build the same at this moment may end it by the budget of time
		began := time.Now()
		id, _ := in.upload(t, name, "main", packed)
		status = in.built(t, name, id)
		t.Logf("uploaded and built in %s", time.Since(began).Round(time.Millisecond))
		if !strings.Contains(fmt.Sprint(status), `over the budget "time"`) {
			break
		}
	}
	if status.text("status") != "SUCCESS" {
		t.Fatalf("%v", status)
	}
	consumer := in.ask(t, http.StatusOK, http.MethodPost, in.path("/key-buckets/%s-production/consumers?with-api-key=true", name), `{"name":"octocat"}`)
	keys, _ := consumer["apiKeys"].([]any)
	first, _ := keys[0].(map[string]any)
	key := object(first).text("key")

	// A slash within a segment is a boundary where paths arrive decoded.
	value := "some%2Fvalue"
	if os.Getenv(varDecodedPaths) != "" {
		value = "some%20value"
	}
	parameter := regexp.MustCompile(`\{[^}]+\}`)
	shapes := map[int][]*regexp.Regexp{} // of paths, by their slashes
	for path := range paths {
		n := strings.Count(path, "/")
		shapes[n] = append(shapes[n], regexp.MustCompile("^"+parameter.ReplaceAllString(path, "[^/]+")+"$"))
	}
	var group sync.WaitGroup
	limit := make(chan struct{}, 8)
	for _, o := range operations {
		limit <- struct{}{}
		group.Go(func() {
			defer func() { <-limit }()
			path := parameter.ReplaceAllString(o.path, value)
			decoded := strings.ReplaceAll(path, "%2F", "/")
			another := func(shape *regexp.Regexp) bool { return shape.MatchString(decoded) }
			if path != o.path && slices.ContainsFunc(shapes[strings.Count(decoded, "/")], another) {
				// With a decoded slash it is another path of the project, and refused.
				path = parameter.ReplaceAllString(o.path, "some%20value")
			}
			out := in.call(t, o.method, status.text("url")+path, nil, http.Header{"Authorization": {"Bearer " + key}})
			var e echo
			if err := json.NewDecoder(out.Body).Decode(&e); err != nil || out.StatusCode != http.StatusOK {
				t.Errorf("%s %s: %d, %v", o.method, o.path, out.StatusCode, err)
				return
			}
			if got, err := url.PathUnescape(strings.TrimPrefix(e.Path, "/")); err != nil || got != o.id || e.Method != o.method {
				t.Errorf("%s %s leads to %s %s, not %s", o.method, o.path, e.Method, got, o.id)
			}
		})
	}
	group.Wait()
}
