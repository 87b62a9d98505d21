package product

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-lambda-go/events"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/dev/emulator"
	"github.com/gatewright/gatewright/shared/core/config"
)

// localhostClient returns a client that, like browsers and curl, resolves every name below localhost to this machine.
func localhostClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if host, port, err := net.SplitHostPort(addr); err == nil && strings.HasSuffix(host, ".localhost") {
				addr = net.JoinHostPort("127.0.0.1", port)
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	}}
}

// call sends a request to the management API with the account key and decodes the response.
func call(ts *testscript.TestScript, method, path string, body, into any) {
	var payload []byte
	if body != nil {
		var err error
		payload, err = json.Marshal(body)
		ts.Check(err)
	}
	request, err := http.NewRequest(method, ts.Getenv("API")+path, bytes.NewReader(payload))
	ts.Check(err)
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(ts.ReadFile(".gatewright/account-key")))
	response, err := localhostClient().Do(request)
	ts.Check(err)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	ts.Check(err)
	if response.StatusCode != http.StatusOK {
		ts.Fatalf("%s %s: status = %s, want 200: %s", method, path, response.Status, data)
	}
	ts.Check(json.Unmarshal(data, into))
}

// deployFolder uploads a folder to the branch main of the project hello: `deploy
// DIR`. The first call creates the key bucket that the project hello names.
func deployFolder(ts *testscript.TestScript, _ bool, args []string) {
	if ts.Getenv("STATUS_ID") == "" {
		var created struct{ ID string }
		call(ts, http.MethodPost, "/v1/accounts/demo/key-buckets", map[string]string{"name": "hello-consumers"}, &created)
	}
	var source struct{ UploadURL, DeploymentID string }
	// Retry, because S3 may still be restarting.
	waitUntil(ts, "an upload", func() bool {
		call(ts, http.MethodPost, "/v1/deployments/sources",
			map[string]string{"accountName": "demo", "projectName": "hello", "branchName": "main"}, &source)
		request, err := http.NewRequest(http.MethodPut, source.UploadURL, bytes.NewReader(tarGzip(ts, args[0])))
		ts.Check(err)
		response, err := localhostClient().Do(request)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	ts.Setenv("STATUS_ID", source.DeploymentID)
}

// waitBuilt waits until the last upload is built and sets $DEPLOYMENT to its address: `wait-built`.
func waitBuilt(ts *testscript.TestScript, _ bool, _ []string) {
	var status struct {
		Status, URL string
		BuildResult json.RawMessage
	}
	waitUntil(ts, "a build", func() bool {
		call(ts, http.MethodGet, "/v1/accounts/demo/projects/hello/deployment-status/"+ts.Getenv("STATUS_ID"), nil, &status)
		return status.Status != "IN_PROGRESS"
	})
	if status.Status != "SUCCESS" {
		ts.Fatalf("status of the build = %s, want SUCCESS: %s", status.Status, status.BuildResult)
	}
	ts.Setenv("DEPLOYMENT", status.URL)
}

// waitRefused waits until the build of the last upload has failed, and
// checks that the build result matches a pattern: `wait-refused PATTERN`.
func waitRefused(ts *testscript.TestScript, _ bool, args []string) {
	var status struct {
		Status      string
		BuildResult json.RawMessage
	}
	waitUntil(ts, "a build", func() bool {
		call(ts, http.MethodGet, "/v1/accounts/demo/projects/hello/deployment-status/"+ts.Getenv("STATUS_ID"), nil, &status)
		return status.Status != "IN_PROGRESS"
	})
	if status.Status != "ERROR" || !regexp.MustCompile(args[0]).Match(status.BuildResult) {
		ts.Fatalf("build = %s: %s, want ERROR with %q", status.Status, status.BuildResult, args[0])
	}
}

// writeHostileProject writes a project that must exceed a budget of the builder: `write-hostile-project
// names|patterns|values`. Without budgets, it would take gigabytes or minutes to build, or seconds for each request.
func writeHostileProject(ts *testscript.TestScript, _ bool, args []string) {
	var members strings.Builder
	name, item := "/", `"a%d": 1`
	n := 20_000
	switch args[0] {
	case "names":
		name += strings.Repeat("x", 160_000)
	case "patterns":
		name += "(" + strings.Repeat("a?", 500) + "a{1000})"
		item, n = `"get": {"responses": {"200": {"description": "d"}}, "x-gateway-route": {"handler": {
			"export": "urlForwardHandler", "module": "$import(@gatewright/runtime)",
			"options": {"baseUrl": "https://example.com"}}}}, "x-gateway-path": {"pathMode": "url-pattern"}, "x-%d": 1`, 1
	case "values":
		item, n = `"x-%d": [`+strings.Repeat("[],", 2_000)+`[]]`, 1_000
	default:
		ts.Fatalf("unknown project %q, want names, patterns or values", args[0])
	}
	for i := range n {
		if i > 0 {
			members.WriteByte(',')
		}
		fmt.Fprintf(&members, item, i)
	}
	ts.Check(os.MkdirAll(ts.MkAbs(args[0]+"/config"), 0o700))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+"/config/routes.oas.json"),
		[]byte(`{"openapi": "3.0.3", "info": {"title": "t", "version": "1"}, "paths": {"`+name+`": {`+members.String()+`}}}`),
		0o600))
}

// writeSelfCallingProject writes a project whose upstreams are the run's own
// listeners, by the name localhost instead of their addresses: `write-self-calling-project`.
func writeSelfCallingProject(ts *testscript.TestScript, _ bool, _ []string) {
	dir, err := datadir.Open(ts.MkAbs(".gatewright"))
	ts.Check(err)
	state, err := dir.LoadState()
	ts.Check(err)
	var paths []string
	for name, address := range map[string]string{
		"api": state.API, "relay": state.Relay,
		"commands": state.Control.Address,
	} {
		target, err := url.Parse(address)
		ts.Check(err)
		paths = append(paths,
			fmt.Sprintf(`"/%s": {"get": {"responses": {"200": {"description": "d"}}, "x-gateway-route": {"corsPolicy": "none",
			"handler": {"export": "urlRewriteHandler", "module": "$import(@gatewright/runtime)",
				"options": {"rewritePattern": "http://localhost:%s/openapi"}}}}}`, name, target.Port()))
	}
	ts.Check(os.MkdirAll(ts.MkAbs("self-calling/config"), 0o700))
	ts.Check(os.WriteFile(ts.MkAbs("self-calling/config/routes.oas.json"),
		[]byte(`{"openapi": "3.0.3", "info": {"title": "t", "version": "1"}, "paths": {`+strings.Join(paths, ",")+`}}`),
		0o600))
}

// tarGzip returns a folder as a .tar.gz.
func tarGzip(ts *testscript.TestScript, dir string) []byte {
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	files := tar.NewWriter(compressed)
	ts.Check(files.AddFS(os.DirFS(ts.MkAbs(dir))))
	ts.Check(files.Close())
	ts.Check(compressed.Close())
	return out.Bytes()
}

// examplePath returns the path of an example project. It returns an error if the project has no folder config.
func examplePath(name string) (string, error) {
	path, err := filepath.Abs(filepath.Join("..", "..", "examples", name))
	if err != nil {
		return "", err
	}
	entries, err := os.ReadDir(path)
	if err == nil && !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == "config" }) {
		err = os.ErrNotExist
	}
	return path, err
}

// startEmulators starts emulators of DynamoDB and S3 that the run does not
// manage, and sets the variables with their endpoints: `start-emulators`.
func startEmulators(ts *testscript.TestScript, _ bool, _ []string) {
	dir, err := datadir.Open(ts.MkAbs("elsewhere"))
	ts.Check(err)
	log := slog.New(slog.DiscardHandler)
	database, err := emulator.StartDynamoDB(context.Background(),
		emulator.DynamoDBOptions{Dir: dir, Binary: ts.Getenv("GATEWRIGHT_DYNOXIDE"), Log: log})
	ts.Check(err)
	ts.Defer(database.Stop)
	credentials, err := emulator.LoadCredentials(dir)
	ts.Check(err)
	objects, err := emulator.StartS3(context.Background(), emulator.S3Options{
		Dir: dir, Program: ts.Getenv("EMULATORS"), Credentials: credentials, Created: func(events.S3Event) {}, Log: log,
	})
	ts.Check(err)
	ts.Defer(objects.Stop)
	for name, value := range map[string]string{
		config.VarDynamoDBEndpoint: database.Endpoint,
		config.VarS3Endpoint:       objects.Endpoint,
		"AWS_ACCESS_KEY_ID":        credentials.AccessKeyID,
		"AWS_SECRET_ACCESS_KEY":    credentials.SecretAccessKey,
	} {
		ts.Setenv(name, value)
	}
}
