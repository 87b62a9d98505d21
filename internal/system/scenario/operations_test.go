package scenario_test

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/console"
	"github.com/gatewright/gatewright/events"
	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/management/api"
)

// walkthrough sends requests one after another. It replaces {name} in a path or body with a value from an earlier
// response.
type walkthrough struct {
	inst       *target
	values     map[string]string
	operations []string // method and path of each request that was sent
}

// ask sends a request, fails the test if the response has another status, and keeps fields of the response:
// "managerId=id" keeps the field id as {managerId}.
func (w *walkthrough) ask(t *testing.T, status int, method, path, body string, keep ...string) object {
	t.Helper()
	w.operations = append(w.operations, method+" "+path)
	for name, value := range w.values {
		path = strings.ReplaceAll(path, "{"+name+"}", value)
		body = strings.ReplaceAll(body, "{"+name+"}", value)
	}
	out := w.inst.ask(t, status, method, path, body)
	for _, k := range keep {
		name, field, _ := strings.Cut(k, "=")
		if w.values[name] = out.text(field); w.values[name] == "" {
			t.Fatalf("%s %s: the response has no %s, want one: %v", method, path, field, out)
		}
	}
	return out
}

// hasItem reports whether a list contains an object whose field has a value.
func hasItem(t *testing.T, list object, field, value string) bool {
	t.Helper()
	return slices.ContainsFunc(list.data(t), func(o object) bool { return o.text(field) == value })
}

// TestEveryOperationWorks calls each operation of the management API as a client would: related operations in a
// walkthrough, and the others with their samples (package events). It then compares the called operations with GET
// /openapi, and fails if an operation of the installation was not called.
func TestEveryOperationWorks(t *testing.T) {
	t.Parallel()
	inst, upstream := installation, newUpstream(t)
	name := unique(t, "every")
	s := &walkthrough{inst: inst, values: map[string]string{
		"accountName": inst.account, "projectName": name,
		"bucketName": name,
	}}
	s.bucket(t)
	s.consumer(t)
	s.project(t, upstream)
	s.deployments(t, upstream)
	s.ask(t, 204, "DELETE", bucketPath, "")
	s.domains(t, name+".example.com")
	s.tunnels(t)
	s.session(t)
	s.remaining(t)
	s.checkCoverage(t)
}

// Paths that several parts of the walkthrough use.
const (
	bucketPath  = "/v1/accounts/{accountName}/key-buckets/{bucketName}"
	projectPath = "/v1/accounts/{accountName}/projects/{projectName}"
)

// bucket creates a key bucket.
func (w *walkthrough) bucket(t *testing.T) {
	t.Helper()
	const buckets = "/v1/accounts/{accountName}/key-buckets"
	w.ask(t, 200, "POST", buckets, `{"name":"{bucketName}","tags":{"team":"blue"}}`)
	w.ask(t, 200, "GET", bucketPath, "")
	if !hasItem(t, w.ask(t, 200, "GET", buckets, ""), "name", w.values["bucketName"]) {
		t.Error("GET …/key-buckets lacks the new bucket, want it in the list")
	}
}

// consumer creates a consumer with keys, and deletes it.
func (w *walkthrough) consumer(t *testing.T) {
	t.Helper()
	const consumers, consumer = bucketPath + "/consumers", bucketPath + "/consumers/{consumerName}"
	w.ask(t, 200, "POST", consumers, `{"name":"ada","tags":{"team":"blue"},"managers":["grace@example.com"]}`,
		"consumerName=name")
	w.ask(t, 200, "GET", consumer+"?include-managers=true", "")
	w.ask(t, 200, "PATCH", consumer, `{"description":"the first"}`)
	w.ask(t, 200, "PATCH", consumer, `{"tags":{"team":"green"},"metadata":{"plan":"gold"}}`)
	if !hasItem(t, w.ask(t, 200, "GET", consumers+"?tag.team=green", ""), "name", "ada") ||
		hasItem(t, w.ask(t, 200, "GET", consumers+"?tag.team=blue", ""), "name", "ada") {
		t.Error("the lists of consumers by tag are wrong, want ada with team=green, and not with team=blue")
	}

	const keys, key = consumer + "/keys", consumer + "/keys/{keyId}"
	w.ask(t, 200, "POST", keys, `{"description":"one"}`, "keyId=id")
	w.ask(t, 200, "GET", key+"?key-format=visible", "")
	w.ask(t, 200, "POST", keys+"/$bulk", `[{},{}]`)
	w.ask(t, 204, "POST", consumer+"/roll-key",
		fmt.Sprintf(`{"expiresOn":%q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
	w.ask(t, 204, "DELETE", key, "")
	if listed := w.ask(t, 200, "GET", keys, "").data(t); len(listed) != 3 {
		t.Errorf("GET …/keys lists %d keys, want 3: 1 and 2 created, one deleted, and one created by the roll", len(listed))
	}
	w.ask(t, 204, "DELETE", consumer, "")
	w.ask(t, 404, "GET", consumer, "")
}

// project creates a project with a variable.
func (w *walkthrough) project(t *testing.T, upstream string) {
	t.Helper()
	w.ask(t, 200, "POST", "/v1/projects?accountName={accountName}", `{"name":"{projectName}"}`)
	if !hasItem(t, w.ask(t, 200, "GET", "/v1/projects", ""), "name", w.values["projectName"]) {
		t.Error("GET /v1/projects lacks the new project, want it in the list")
	}
	const variables = projectPath + "/branches/{branchName}/variables"
	w.values["branchName"] = "main"
	w.ask(t, 201, "POST", variables, `{"name":"UPSTREAM","isSecret":false,"value":"`+upstream+`"}`)
	w.values["variableName"] = "UPSTREAM"
	w.ask(t, 200, "PATCH", variables+"/{variableName}", `{"value":"`+upstream+`/x"}`)
}

// deployments deploys the project in each supported manner, and deletes the deployments.
func (w *walkthrough) deployments(t *testing.T, upstream string) {
	t.Helper()
	name := w.values["projectName"]
	body := archive(t, simple(t, "$env(UPSTREAM)"))
	for _, request := range []struct{ path, body string }{
		{"/v1/deployments/sources", `{"accountName":"{accountName}","projectName":"{projectName}","branchName":"main"}`},
		{"/v1/deployments/source-url", `{"accountName":"{accountName}","projectName":"{projectName}","environment":"main"}`},
		{projectPath + "/sources", `{}`},
	} {
		issued := w.ask(t, 200, "POST", request.path, request.body)
		if code := w.inst.put(t, issued.text("uploadUrl"), body); code != http.StatusOK {
			t.Fatalf("%s: upload: status = %d, want 200", request.path, code)
		}
		w.values["statusId"] = issued.text("deploymentId")
		if status := w.inst.awaitBuild(t, name, w.values["statusId"]); status.text("status") != "SUCCESS" {
			t.Fatalf("%s: the build has ended with %v, want SUCCESS", request.path, status)
		}
	}
	w.ask(t, 200, "GET", projectPath+"/deployment-status/{statusId}", "")
	if shown := w.ask(t, 200, "GET", projectPath+"/deployment-status/{statusId}/source?file=config/routes.oas.json",
		""); !strings.Contains(shown.text("text"), "$env(UPSTREAM)") {
		t.Errorf("GET …/source?file=config/routes.oas.json = %v, want a text with $env(UPSTREAM)", shown)
	}
	w.ask(t, 404, "GET",
		projectPath+"/deployment-status/00000000-0000-4000-8000-000000000000/source?file=config/routes.oas.json", "")
	w.values["deploymentName"] = w.ask(t, 200, "GET", projectPath+"/deployments", "").data(t)[0].text("name")
	const deployment = "/v1/deployments/{deploymentName}"
	w.ask(t, 200, "GET", deployment, "")
	if routes := w.ask(t, 200, "GET", deployment+"/routes", "").data(t); len(routes) == 0 ||
		routes[0].text("handler") != "urlForwardHandler" {
		t.Errorf("GET %s/routes = %v, want the handler urlForwardHandler first", deployment, routes)
	}
	redeployed := w.ask(t, 200, "POST", deployment+"/deploy", "")
	if status := w.inst.awaitBuild(t, name, redeployed.text("deploymentId")); status.text("status") != "SUCCESS" {
		t.Fatalf("the second build has ended with %v, want SUCCESS", status)
	}
	w.ask(t, 200, "DELETE", projectPath+"/deployments/{deploymentName}", "")
	w.ask(t, 404, "GET", deployment, "")
	other := w.inst.deploy(t, name, "other", simple(t, upstream))
	w.values["deploymentName"], _, _ = strings.Cut(strings.TrimPrefix(strings.TrimPrefix(other, "https://"), "http://"),
		".")
	w.ask(t, 200, "DELETE", deployment, "")
}

// remaining sends the valid requests of the operations that the walkthrough has not used, to the resources that the
// samples create. Deletions come last, in reverse order. Requests that take an idempotency key are sent twice, and must
// get the same response.
func (w *walkthrough) remaining(t *testing.T) {
	t.Helper()
	sampleSet, err := events.Open(functions.APIGroups())
	if err != nil {
		t.Fatal(err)
	}
	values, err := sampleSet.Values(events.Values{
		"accountName": w.inst.account, "projectName": unique(t, "rest"),
		"branchName": "main", "consoleIcon": console.Embedded().Icon(),
	})
	if err != nil {
		t.Fatal(err)
	}
	var requests, deletions []api.Declaration
	for _, g := range functions.Groups() {
		for _, d := range g.Declarations() {
			switch {
			case slices.ContainsFunc(w.operations, func(request string) bool {
				request, _, _ = strings.Cut(request, "?")
				return request == d.Method+" "+d.Path
			}):
			case d.Method == http.MethodDelete:
				deletions = append(deletions, d)
			default:
				requests = append(requests, d)
			}
		}
	}
	slices.Reverse(deletions)
	c := samplesClient{t, w.inst}
	var groups []string
	for _, g := range functions.Groups() {
		// Leave out two groups: the samples of custom domains need a DNS, and the samples of tunnels have names that
		// are unique in the account and would remain.
		if g.Name != "customdomains" && g.Name != "tunnels" {
			groups = append(groups, g.Name)
		}
	}
	if err := sampleSet.Setup(c, values, groups...); err != nil {
		t.Fatal(err)
	}
	for _, d := range append(requests, deletions...) {
		if d.Hidden {
			continue // this operation does not return JSON, and browser_test.go requests it
		}
		r := sampleSet.Request(d)
		if err := sampleSet.RunSteps(c, values, r.Prerequisites); err != nil {
			t.Fatal(err)
		}
		target, body, err := r.Target(d, values)
		if err != nil {
			t.Fatal(err)
		}
		inst := w.inst
		if d.TakesIdempotencyKey() {
			inst = inst.as(inst.key, http.Header{"Idempotency-Key": {"rest-" + d.ID}})
		}
		first := inst.ask(t, d.Status, d.Method, target, body)
		if d.TakesIdempotencyKey() {
			if retried := inst.ask(t, d.Status, d.Method, target, body); !reflect.DeepEqual(retried, first) {
				t.Errorf("%s = %v when it is retried, want %v", d.ID, retried, first)
			}
		}
		w.operations = append(w.operations, d.Method+" "+d.Path)
	}
}

// TestFirstUseOfAKeyIsRecorded checks that functions record the first use of a key. Each of five keys makes one
// request, each to a different function, and is then revoked. The installation's own key keeps full access, because the
// last key with full access cannot be revoked.
func TestFirstUseOfAKeyIsRecorded(t *testing.T) {
	t.Parallel()
	inst, project := installation, unique(t, "noted")
	inst.ask(t, http.StatusOK, http.MethodPost, "/v1/projects", fmt.Sprintf(`{"name": %q}`, project))
	keys := map[string]string{}
	for group, path := range map[string]string{
		"account keys": inst.path("/account-keys"), "audit logs": inst.path("/audit-logs"),
		"environments": "/v1/environments?projectName=" + project,
		"key buckets":  inst.path("/key-buckets"), "projects": "/v1/projects",
	} {
		created := inst.ask(t, http.StatusCreated, http.MethodPost, inst.path("/account-keys"),
			fmt.Sprintf(`{"label": %q, "scopes": "all"}`, group))
		keys[created.text("id")] = group
		inst.as(created.text("key"), nil).ask(t, http.StatusOK, http.MethodGet, path, "")
	}
	for _, key := range inst.ask(t, http.StatusOK, http.MethodGet, inst.path("/account-keys"), "").data(t) {
		id := key.text("id")
		group, ok := keys[id]
		if !ok {
			continue
		}
		delete(keys, id)
		if key.text("lastUsedOn") == "" {
			t.Errorf("the key used for %s has no lastUsedOn, want one: %v", group, key)
		}
		inst.ask(t, http.StatusNoContent, http.MethodDelete, inst.path("/account-keys/%s", id), "")
	}
	if len(keys) > 0 {
		t.Errorf("GET …/account-keys lacks %v, want them in the list", keys)
	}
}

// TestBranchOfSeveralProjectsIsAmbiguous requests a branch that two projects have. Each project takes over a bucket
// that already exists.
func TestBranchOfSeveralProjectsIsAmbiguous(t *testing.T) {
	t.Parallel()
	inst, branch := installation, unique(t, "branch")
	for i := range 2 {
		project := unique(t, fmt.Sprintf("ambiguous-%d", i))
		inst.ask(t, http.StatusOK, http.MethodPost, inst.path("/key-buckets"),
			fmt.Sprintf(`{"name": "%[1]s-preview", "tags": {"project": %[1]q, "environmentType": "PREVIEW"}}`, project))
		inst.ask(t, http.StatusOK, http.MethodPost, "/v1/projects", fmt.Sprintf(`{"name": %q}`, project))
		inst.ask(t, http.StatusOK, http.MethodPost, "/v1/environments", fmt.Sprintf(
			`{"accountName": %q, "projectName": %q, "branchName": %q, "environmentType": "preview"}`, inst.account, project,
			branch))
	}
	inst.ask(t, http.StatusConflict, http.MethodGet, "/v1/environments/"+branch, "")
}

// samplesClient sends the requests of samples over HTTP.
type samplesClient struct {
	t    *testing.T
	inst *target
}

// Call implements events.Client.
func (c samplesClient) Call(method, target, body string) (status int, response []byte, err error) {
	return c.inst.do(c.t.Context(), method, target, body)
}

// Upload implements events.Client.
func (c samplesClient) Upload(n map[string]string, address string) error {
	if status := c.inst.put(c.t, address, archive(c.t, simple(c.t, "http://192.0.2.1"))); status != http.StatusOK {
		return fmt.Errorf("upload: status = %d, want 200", status)
	}
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	if status := c.inst.awaitBuild(c.t, n["projectName"], path.Base(u.Path)); status.text("status") != "SUCCESS" {
		return fmt.Errorf("the build has ended with %v, want SUCCESS", status)
	}
	return nil
}

// simple returns a project with one route.
func simple(t *testing.T, upstream string) files {
	t.Helper()
	return project(t,
		[]route{{path: "/a", method: "get", handler: "urlForwardHandler", options: map[string]any{"baseUrl": upstream}}}, "")
}

// checkCoverage compares the requests of the walkthrough with the operations that the installation describes.
func (w *walkthrough) checkCoverage(t *testing.T) {
	t.Helper()
	_, raw, err := w.inst.do(t.Context(), http.MethodGet, "/openapi", "")
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, request := range w.operations {
		path, _, _ := strings.Cut(request, "?")
		used[path] = true
	}
	operations := 0
	for path, item := range document.Paths {
		for method := range item {
			if !slices.Contains(methods, method) {
				continue
			}
			operations++
			if request := strings.ToUpper(method) + " " + path; !used[request] {
				t.Errorf("the walkthrough has sent no request to %s, want one", request)
			}
		}
	}
	if operations == 0 {
		t.Error("the OpenAPI document has no operation, want some")
	}
}

// domains uses the operations on custom domains. A hostname can be verified only if the installation reads a file
// instead of the DNS. Otherwise the API has to report the missing record.
func (w *walkthrough) domains(t *testing.T, hostname string) {
	t.Helper()
	const domains, domain = "/v1/accounts/{accountName}/custom-domains",
		"/v1/accounts/{accountName}/custom-domains/{hostname}"
	w.values["hostname"] = hostname
	created := w.ask(t, 200, "POST", domains, `{"hostname":"{hostname}"}`)
	if !hasItem(t, w.ask(t, 200, "GET", domains, ""), "hostname", hostname) {
		t.Error("GET …/custom-domains lacks the new domain, want it in the list")
	}
	status := http.StatusConflict
	if w.inst.records != "" {
		status = http.StatusOK
		proof, _ := created["ownershipVerification"].(map[string]any)
		f, err := os.OpenFile(w.inst.records, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		_, err = fmt.Fprintf(f, "%s TXT %s\n", proof["name"], proof["value"])
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	w.ask(t, status, "POST", domain+"/verify", "")
	leaf := pkitest.CA(t, "CA", time.Now()).Client(t, hostname, time.Now(), func(c *pkitest.Template) {
		c.DNSNames, c.ExtKeyUsage = []string{hostname}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})
	body, err := json.Marshal(map[string]string{"certificate": leaf.PEM(), "key": leaf.KeyPEM(t)})
	if err != nil {
		t.Fatal(err)
	}
	w.ask(t, status, "PUT", domain+"/certificate", string(body))
	w.ask(t, 200, "GET", domain, "")
	if status != http.StatusOK {
		status = http.StatusNotFound
	}
	w.ask(t, status, "DELETE", domain+"/certificate", "")
	w.ask(t, 200, "PATCH", domains, `{"hostname":"{hostname}"}`)
	w.ask(t, 200, "DELETE", domains+"?hostname={hostname}", "")
	w.ask(t, 404, "GET", domain, "")
}
