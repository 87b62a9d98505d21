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

	"github.com/gatewright/gatewright/events"
	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/pki/pkitest"
)

// story makes requests in turn; {name} in a path or body stands for what an
// earlier answer gave.
type story struct {
	in     *target
	values map[string]string
	done   []string // method and path of each, as it was asked
}

// ask makes a request that has to be answered with status, and keeps fields of
// its answer: "managerId=id" keeps the field id as {managerId}.
func (s *story) ask(t *testing.T, status int, method, path, body string, keep ...string) object {
	t.Helper()
	s.done = append(s.done, method+" "+path)
	for name, value := range s.values {
		path = strings.ReplaceAll(path, "{"+name+"}", value)
		body = strings.ReplaceAll(body, "{"+name+"}", value)
	}
	out := s.in.ask(t, status, method, path, body)
	for _, k := range keep {
		name, field, _ := strings.Cut(k, "=")
		if s.values[name] = out.text(field); s.values[name] == "" {
			t.Fatalf("%s %s: no %s in %v", method, path, field, out)
		}
	}
	return out
}

// has reports whether a list names something in one of its fields.
func has(t *testing.T, list object, field, value string) bool {
	t.Helper()
	return slices.ContainsFunc(list.data(t), func(o object) bool { return o.text(field) == value })
}

// TestEveryOperationWorks uses each operation of the management API as a client
// would: those that belong together in a story, the others by their samples (package
// events). It then compares what it has used with GET /openapi, so that an
// operation which an installation has and nothing uses fails.
func TestEveryOperationWorks(t *testing.T) {
	t.Parallel()
	in, upstream := installation, newUpstream(t)
	name := unique(t, "every")
	s := &story{in: in, values: map[string]string{"accountName": in.account, "projectName": name, "bucketName": name}}

	const buckets, bucket = "/v1/accounts/{accountName}/key-buckets", "/v1/accounts/{accountName}/key-buckets/{bucketName}"
	s.ask(t, 200, "POST", buckets, `{"name":"{bucketName}","tags":{"team":"blue"}}`)
	s.ask(t, 200, "GET", bucket, "")
	if !has(t, s.ask(t, 200, "GET", buckets, ""), "name", name) {
		t.Error("the bucket is not listed")
	}

	const consumers, consumer = bucket + "/consumers", bucket + "/consumers/{consumerName}"
	s.ask(t, 200, "POST", consumers, `{"name":"ada","tags":{"team":"blue"},"managers":["grace@example.com"]}`, "consumerName=name")
	s.ask(t, 200, "GET", consumer+"?include-managers=true", "")
	s.ask(t, 200, "PATCH", consumer, `{"description":"the first"}`)
	s.ask(t, 200, "PATCH", consumer, `{"tags":{"team":"green"},"metadata":{"plan":"gold"}}`)
	if !has(t, s.ask(t, 200, "GET", consumers+"?tag.team=green", ""), "name", "ada") || has(t, s.ask(t, 200, "GET", consumers+"?tag.team=blue", ""), "name", "ada") {
		t.Error("the consumer is not listed by its tag")
	}

	const keys, key = consumer + "/keys", consumer + "/keys/{keyId}"
	s.ask(t, 200, "POST", keys, `{"description":"one"}`, "keyId=id")
	s.ask(t, 200, "GET", key+"?key-format=visible", "")
	s.ask(t, 200, "POST", keys+"/$bulk", `[{},{}]`)
	s.ask(t, 204, "POST", consumer+"/roll-key", fmt.Sprintf(`{"expiresOn":%q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339)))
	s.ask(t, 204, "DELETE", key, "")
	if listed := s.ask(t, 200, "GET", keys, "").data(t); len(listed) != 3 {
		t.Errorf("%d keys of 1 + 2, one deleted and one by the roll", len(listed))
	}
	s.ask(t, 204, "DELETE", consumer, "")
	s.ask(t, 404, "GET", consumer, "")

	const project = "/v1/accounts/{accountName}/projects/{projectName}"
	s.ask(t, 200, "POST", "/v1/projects?accountName={accountName}", `{"name":"{projectName}"}`)
	if !has(t, s.ask(t, 200, "GET", "/v1/projects", ""), "name", name) {
		t.Error("the project is not listed")
	}
	const variables = project + "/branches/{branchName}/variables"
	s.values["branchName"] = "main"
	s.ask(t, 201, "POST", variables, `{"name":"UPSTREAM","isSecret":false,"value":"`+upstream+`"}`)
	s.values["variableName"] = "UPSTREAM"
	s.ask(t, 200, "PATCH", variables+"/{variableName}", `{"value":"`+upstream+`/x"}`)

	body := archive(t, simple(t, "$env(UPSTREAM)"))
	for _, request := range []struct{ path, body string }{
		{"/v1/deployments/sources", `{"accountName":"{accountName}","projectName":"{projectName}","branchName":"main"}`},
		{"/v1/deployments/source-url", `{"accountName":"{accountName}","projectName":"{projectName}","environment":"main"}`},
		{project + "/sources", `{}`},
	} {
		issued := s.ask(t, 200, "POST", request.path, request.body)
		if code := in.put(t, issued.text("uploadUrl"), body); code != http.StatusOK {
			t.Fatalf("%s: the upload is answered with %d", request.path, code)
		}
		s.values["statusId"] = issued.text("deploymentId")
		if status := in.built(t, name, s.values["statusId"]); status.text("status") != "SUCCESS" {
			t.Fatalf("%s: %v", request.path, status)
		}
	}
	s.ask(t, 200, "GET", project+"/deployment-status/{statusId}", "")
	if shown := s.ask(t, 200, "GET", project+"/deployment-status/{statusId}/source?file=config/routes.oas.json", ""); !strings.Contains(shown.text("text"), "$env(UPSTREAM)") {
		t.Errorf("the sources are %v", shown)
	}
	s.ask(t, 404, "GET", project+"/deployment-status/00000000-0000-4000-8000-000000000000/source?file=config/routes.oas.json", "")
	s.values["deploymentName"] = s.ask(t, 200, "GET", project+"/deployments", "").data(t)[0].text("name")
	const deployment = "/v1/deployments/{deploymentName}"
	s.ask(t, 200, "GET", deployment, "")
	if routes := s.ask(t, 200, "GET", deployment+"/routes", "").data(t); len(routes) == 0 || routes[0].text("handler") != "urlForwardHandler" {
		t.Errorf("the routes are %v", routes)
	}
	again := s.ask(t, 200, "POST", deployment+"/deploy", "")
	if status := in.built(t, name, again.text("deploymentId")); status.text("status") != "SUCCESS" {
		t.Fatalf("the redeploy: %v", status)
	}
	s.ask(t, 200, "DELETE", project+"/deployments/{deploymentName}", "")
	s.ask(t, 404, "GET", deployment, "")
	other := in.deploy(t, name, "other", simple(t, upstream))
	s.values["deploymentName"], _, _ = strings.Cut(strings.TrimPrefix(strings.TrimPrefix(other, "https://"), "http://"), ".")
	s.ask(t, 200, "DELETE", deployment, "")
	s.ask(t, 204, "DELETE", bucket, "")
	s.domains(t, name+".example.com")
	s.tunnels(t)
	s.session(t)
	s.rest(t)
	s.covered(t)
}

// rest makes the good requests of the operations that the story has not used, in
// a world that their samples make; deletions come last, the latest made first. What
// can be repeated is: the second time it changes nothing.
func (s *story) rest(t *testing.T) {
	t.Helper()
	book, err := events.Open(functions.Described())
	if err != nil {
		t.Fatal(err)
	}
	names, err := book.Names(events.Names{"accountName": s.in.account, "projectName": unique(t, "rest"), "branchName": "main"})
	if err != nil {
		t.Fatal(err)
	}
	var requests, deletions []api.Declaration
	for _, g := range functions.Groups() {
		for _, d := range g.Declarations() {
			switch {
			case slices.ContainsFunc(s.done, func(request string) bool {
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
	c := samplesClient{t, s.in}
	var groups []string
	for _, g := range functions.Groups() {
		// The world of the one needs a DNS; that of the other has names that are the account's, and stays.
		if g.Name != "customdomains" && g.Name != "tunnels" {
			groups = append(groups, g.Name)
		}
	}
	if err := book.Make(c, names, groups...); err != nil {
		t.Fatal(err)
	}
	for _, d := range append(requests, deletions...) {
		if d.Hidden {
			continue // it answers no JSON, and browser_test.go asks for it
		}
		r := book.Request(d)
		if err := book.Steps(c, names, r.After); err != nil {
			t.Fatal(err)
		}
		target, body, err := r.Target(d, names)
		if err != nil {
			t.Fatal(err)
		}
		in := s.in
		if d.Repeatable() {
			in = in.by(in.key, http.Header{"Idempotency-Key": {"rest-" + d.ID}})
		}
		first := in.ask(t, d.Status, d.Method, target, body)
		if d.Repeatable() {
			if again := in.ask(t, d.Status, d.Method, target, body); !reflect.DeepEqual(again, first) {
				t.Errorf("%s answers %v, and %v when it is repeated", d.ID, first, again)
			}
		}
		s.done = append(s.done, d.Method+" "+d.Path)
	}
}

// TestFirstUseOfAKeyIsNoted uses keys for one request each, of one function after the
// other, and revokes them. None is the last that may everything.
func TestFirstUseOfAKeyIsNoted(t *testing.T) {
	t.Parallel()
	in, project := installation, unique(t, "noted")
	in.ask(t, http.StatusOK, http.MethodPost, "/v1/projects", fmt.Sprintf(`{"name": %q}`, project))
	keys := map[string]string{}
	for group, path := range map[string]string{
		"account keys": in.path("/account-keys"), "audit logs": in.path("/audit-logs"), "environments": "/v1/environments?projectName=" + project,
		"key buckets": in.path("/key-buckets"), "projects": "/v1/projects",
	} {
		made := in.ask(t, http.StatusCreated, http.MethodPost, in.path("/account-keys"), fmt.Sprintf(`{"label": %q, "scopes": "all"}`, group))
		keys[made.text("id")] = group
		in.by(made.text("key"), nil).ask(t, http.StatusOK, http.MethodGet, path, "")
	}
	for _, key := range in.ask(t, http.StatusOK, http.MethodGet, in.path("/account-keys"), "").data(t) {
		id := key.text("id")
		group, ok := keys[id]
		if !ok {
			continue
		}
		delete(keys, id)
		if key.text("lastUsedOn") == "" {
			t.Errorf("the key used for %s was never used: %v", group, key)
		}
		in.ask(t, http.StatusNoContent, http.MethodDelete, in.path("/account-keys/%s", id), "")
	}
	if len(keys) > 0 {
		t.Errorf("the list lacks %v", keys)
	}
}

// TestBranchOfSeveralProjectsIsAmbiguous asks for what two projects have, the second
// of which takes a bucket that was there before it.
func TestBranchOfSeveralProjectsIsAmbiguous(t *testing.T) {
	t.Parallel()
	in, branch := installation, unique(t, "branch")
	for i := range 2 {
		project := unique(t, fmt.Sprintf("ambiguous-%d", i))
		in.ask(t, http.StatusOK, http.MethodPost, in.path("/key-buckets"),
			fmt.Sprintf(`{"name": "%[1]s-preview", "tags": {"project": %[1]q, "environmentType": "PREVIEW"}}`, project))
		in.ask(t, http.StatusOK, http.MethodPost, "/v1/projects", fmt.Sprintf(`{"name": %q}`, project))
		in.ask(t, http.StatusOK, http.MethodPost, "/v1/environments", fmt.Sprintf(
			`{"accountName": %q, "projectName": %q, "branchName": %q, "environmentType": "preview"}`, in.account, project, branch))
	}
	in.ask(t, http.StatusConflict, http.MethodGet, "/v1/environments/"+branch, "")
}

// samplesClient makes the requests of samples over HTTP.
type samplesClient struct {
	t  *testing.T
	in *target
}

// Ask implements events.Client.
func (c samplesClient) Ask(method, target, body string) (status int, answer []byte, err error) {
	return c.in.do(c.t.Context(), method, target, body)
}

// Upload implements events.Client.
func (c samplesClient) Upload(n map[string]string, address string) error {
	if status := c.in.put(c.t, address, archive(c.t, simple(c.t, "http://192.0.2.1"))); status != http.StatusOK {
		return fmt.Errorf("the upload is answered with %d", status)
	}
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	if status := c.in.built(c.t, n["projectName"], path.Base(u.Path)); status.text("status") != "SUCCESS" {
		return fmt.Errorf("the build fails: %v", status)
	}
	return nil
}

// simple is a project with one route.
func simple(t *testing.T, upstream string) files {
	t.Helper()
	return project(t, []route{{path: "/a", method: "get", handler: "urlForwardHandler", options: map[string]any{"baseUrl": upstream}}}, "")
}

// covered compares what was asked with what the installation says it answers.
func (s *story) covered(t *testing.T) {
	t.Helper()
	_, raw, err := s.in.do(t.Context(), http.MethodGet, "/openapi", "")
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
	for _, request := range s.done {
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
				t.Errorf("no request was made of %s", request)
			}
		}
	}
	if operations == 0 {
		t.Error("the document lists no operation")
	}
}

// domains uses the operations on custom domains. A hostname is proven where a file stands for
// the DNS; elsewhere the proof is missing, which is what is to be told.
func (s *story) domains(t *testing.T, hostname string) {
	t.Helper()
	const domains, domain = "/v1/accounts/{accountName}/custom-domains", "/v1/accounts/{accountName}/custom-domains/{hostname}"
	s.values["hostname"] = hostname
	made := s.ask(t, 200, "POST", domains, `{"hostname":"{hostname}"}`)
	if !has(t, s.ask(t, 200, "GET", domains, ""), "hostname", hostname) {
		t.Error("the custom domain is not listed")
	}
	status := http.StatusConflict
	if s.in.records != "" {
		status = http.StatusOK
		proof, _ := made["ownershipVerification"].(map[string]any)
		f, err := os.OpenFile(s.in.records, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		_, err = fmt.Fprintf(f, "%s TXT %s\n", proof["name"], proof["value"])
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	s.ask(t, status, "POST", domain+"/verify", "")
	leaf := pkitest.CA(t, "CA", time.Now()).Client(t, hostname, time.Now(), func(c *pkitest.Template) {
		c.DNSNames, c.ExtKeyUsage = []string{hostname}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})
	body, err := json.Marshal(map[string]string{"certificate": leaf.PEM(), "key": leaf.KeyPEM(t)})
	if err != nil {
		t.Fatal(err)
	}
	s.ask(t, status, "PUT", domain+"/certificate", string(body))
	s.ask(t, 200, "GET", domain, "")
	if status != http.StatusOK {
		status = http.StatusNotFound
	}
	s.ask(t, status, "DELETE", domain+"/certificate", "")
	s.ask(t, 200, "PATCH", domains, `{"hostname":"{hostname}"}`)
	s.ask(t, 200, "DELETE", domains+"?hostname={hostname}", "")
	s.ask(t, 404, "GET", domain, "")
}
