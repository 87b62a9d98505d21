package files_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/profile"
	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/functions/functionstest"
)

// testProduct is an installation in memory with the product's own handlers, and an API client for it.
type testProduct struct {
	*functionstest.Fixture
	api *call.API
	key string
	// lose is called for each request. n is the number of the request, from 1. If lose returns before = true, the request
	// is lost before it is handled. If it returns after = true, the request is handled and its response is lost. If lose
	// is nil, nothing is lost.
	lose     func(n int, r *http.Request) (before, after bool)
	requests int
	// changes are the requests that were handled and are not reads.
	changes []string
}

func newProduct(t *testing.T) *testProduct {
	t.Helper()
	var binds []functionstest.Bind
	for _, g := range functions.Groups() {
		binds = append(binds, g.Bind)
	}
	p := &testProduct{Fixture: functionstest.New(t, binds...)}
	p.key = p.Fixture.CreateAccount("acme")
	p.connect(t)
	return p
}

// clone returns an independent copy with the same content.
func (p *testProduct) clone(t *testing.T) *testProduct {
	t.Helper()
	c := &testProduct{Fixture: p.Copy(t), key: p.key}
	c.connect(t)
	return c
}

func (p *testProduct) connect(t *testing.T) {
	t.Helper()
	env := map[string]string{profile.VarURL: "http://127.0.0.1:1", profile.VarKey: p.key, profile.VarAccount: "acme"}
	access, err := (&profile.Profiles{}).Resolve(profile.Overrides{}, func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	p.api = &call.API{Access: access, HTTP: &http.Client{Transport: p}, Sleep: p.sleep}
}

// RoundTrip implements http.RoundTripper.
func (p *testProduct) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	p.requests++
	var before, after bool
	if p.lose != nil {
		before, after = p.lose(p.requests, r)
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if before {
		return nil, io.ErrUnexpectedEOF
	}
	var headers []string
	for name := range r.Header {
		if name != "Authorization" {
			headers = append(headers, name, r.Header.Get(name))
		}
	}
	resp := p.Call(p.key, r.Method, r.URL.RequestURI(), string(body), headers...)
	if r.Method != http.MethodGet {
		p.changes = append(p.changes, r.Method+" "+r.URL.Path)
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if after {
		return nil, io.ErrUnexpectedEOF
	}
	return &http.Response{
		StatusCode: resp.Status, Header: resp.Header, Body: io.NopCloser(strings.NewReader(resp.Body)),
		Request: r,
	}, nil
}

// call calls an operation by its name and returns the body of the response. It fails the test if the call fails. Tests
// also use it to make the changes of another client.
func (p *testProduct) call(operation string, arguments map[string]any) map[string]any {
	p.Helper()
	resp, err := p.api.Call(p.Context(), operation, arguments)
	if err != nil {
		p.Fatalf("Call(%s, %v) error = %v, want none", operation, arguments, err)
	}
	var body map[string]any
	_ = json.Unmarshal(resp.Body, &body)
	return body
}

// node is an object that exists in an account, or that files describe. The oracle (oracle_test.go) compares trees of
// nodes. fields contains only fields that are set.
type node struct {
	kind     *kindSpec
	name     string
	fields   map[string]any
	children []*node
	// complete are the lists of children that files declare complete.
	complete []string
	// raw is the object's list entry, without what changes although nobody changes the object (fillNode). id is the
	// object's ID in paths. Objects in files have neither.
	raw, id string
}

// kindSpec describes a kind of object in files.
type kindSpec struct {
	// member is the name of the kind's list in files. singular is the name of the kind in plans. key is the field with
	// the name of an object, or "" if objects of the kind have no names.
	member, singular, key string
	// fields are the other fields that files can have. immutable are those of them that cannot be changed.
	fields    []string
	immutable []string
	// list and create are the API operations that list and create objects. list is "" if no operation lists them. create
	// is "" if files cannot create an object of the kind with an operation of its own. deletable is "yes" if files can
	// delete an object of the kind alone.
	list, create, deletable string
	// argument is the parameter of API operations that identifies an object. id is the field with its value.
	argument, id string
	children     []*kindSpec
	// dependents are the lists of objects that are deleted with an object of the kind.
	dependents []string
}

func contains(list []string, entry string) bool { return slices.Contains(list, entry) }

// kindSpecs returns the kinds in docs/files.md. It is written from that page and from the API's operations.
func kindSpecs() []*kindSpec {
	variables := &kindSpec{
		member: "variables", singular: "variable", key: "name", fields: []string{"isSecret", "value"},
		immutable: []string{"isSecret"}, list: "VariablesService_list", create: "VariablesService_create",
		argument: "variableName", id: "name", deletable: "yes",
	}
	managers := &kindSpec{
		member: "managers", singular: "manager", key: "email", fields: []string{"sub"},
		immutable: []string{"sub"}, list: "ApiKeyConsumerManagers_list", create: "ApiKeyConsumerManagers_create", id: "id",
		deletable: "yes",
	}
	keys := &kindSpec{
		member: "keys", singular: "key", key: "description", fields: []string{"expiresOn"},
		list: "ApiKeyKeysService_list", id: "id",
	}
	return []*kindSpec{
		{
			member: "projects", singular: "project", key: "name", list: "ProjectsService_list", create: "ProjectsService_create",
			argument: "projectName", id: "name", deletable: "yes", dependents: []string{"deployments", "certificates"},
			children: []*kindSpec{
				{
					member: "environments", singular: "environment", key: "branchName", fields: []string{"environmentType"},
					immutable: []string{"environmentType"}, list: "EnvironmentsService_list", create: "EnvironmentsService_create",
					id: "branchName",
				},
				{member: "branches", singular: "branch", key: "name", argument: "branchName", children: []*kindSpec{variables}},
			},
		},
		{
			member: "keyBuckets", singular: "key bucket", key: "name", fields: []string{"description", "isRetrievable", "tags"},
			immutable: []string{"isRetrievable"}, list: "ApiKeyBucketsService_list", create: "ApiKeyBucketsService_create",
			argument: "bucketName", id: "name", deletable: "yes", dependents: []string{"consumers"},
			children: []*kindSpec{{
				member: "consumers", singular: "consumer", key: "name", fields: []string{"description", "metadata", "tags"},
				list: "ApiKeyConsumersService_list", create: "ApiKeyConsumersService_create", argument: "consumerName", id: "name",
				deletable: "yes", dependents: []string{"keys", "managers"},
				children: []*kindSpec{managers, keys},
			}},
		},
		{
			member: "tunnels", singular: "tunnel", key: "name", fields: []string{"services"}, list: "TunnelService_list",
			create: "TunnelService_create", argument: "tunnelId", id: "id", deletable: "yes",
		},
		{
			member: "meteringBuckets", singular: "metering bucket", list: "MeteringBucketsService_list",
			create: "MeteringBucketsService_create", argument: "bucketId", id: "id", deletable: "yes",
			dependents: []string{"plans", "subscriptions"},
			children: []*kindSpec{
				{
					member: "plans", singular: "plan", key: "planExternalId", fields: []string{"label", "meters", "trialDays"},
					list: "MeteringPlansService_list", create: "MeteringPlansService_create", argument: "planId", id: "id",
					deletable: "yes",
				},
				{
					member: "subscriptions", singular: "subscription", key: "subscriptionExternalId",
					fields: []string{
						"customerExternalId", "customerKey", "metadata", "planExternalIds", "region",
						"renewalStrategy", "status", "type",
					},
					immutable: []string{"customerExternalId", "customerKey", "region", "renewalStrategy", "type"},
					list:      "MeteringSubscriptionsService_list", create: "MeteringSubscriptionsService_create", id: "id",
					deletable: "yes",
				},
			},
		},
		{
			member: "caCertificates", singular: "CA certificate", key: "name", list: "ClientMtlsCaCertificatesService_list",
			create: "ClientMtlsCaCertificatesService_create", id: "id", deletable: "yes",
		},
		{
			member: "customDomains", singular: "custom domain", key: "hostname", list: "CustomDomainsService_list",
			create: "CustomDomainsService_create", id: "hostname", deletable: "yes",
		},
	}
}

// snapshot reads the whole account.
func (p *testProduct) snapshot() *node {
	p.Helper()
	root := &node{}
	p.fillNode(kindSpecs(), root, map[string]any{})
	return root
}

func (p *testProduct) fillNode(kinds []*kindSpec, parent *node, arguments map[string]any) {
	p.Helper()
	branches := []string{"main"}
	for _, k := range kinds {
		if k.member == "branches" {
			for _, name := range branches {
				b := &node{kind: k, name: name, id: name}
				parent.children = append(parent.children, b)
				p.fillNode(k.children, b, withArgument(arguments, k.argument, name))
			}
			continue
		}
		document, err := p.api.List(p.Context(), k.list, maps.Clone(arguments))
		if err != nil {
			p.Fatal(err)
		}
		var listed struct{ Data []json.RawMessage }
		if err := json.Unmarshal(document, &listed); err != nil {
			p.Fatal(err)
		}
		if k.member == "managers" {
			var consumer struct{ ManagerInvites []json.RawMessage }
			resp, err := p.api.Call(p.Context(), "ApiKeyConsumersService_read",
				withArgument(arguments, "include-manager-invites", true))
			if err != nil || json.Unmarshal(resp.Body, &consumer) != nil {
				p.Fatalf("Call(ApiKeyConsumersService_read) error = %v, want none and a consumer in JSON", err)
			}
			listed.Data = append(listed.Data, consumer.ManagerInvites...)
		}
		for _, raw := range listed.Data {
			members, _ := parseJSON(raw).(map[string]any)
			n := &node{kind: k, raw: string(raw), fields: map[string]any{}}
			n.id, _ = members[k.id].(string)
			if k.member == "customDomains" {
				n.raw = n.id // ignore the entry, which the verification in the background changes
			}
			// The creation of a subscription changes this member.
			n.raw = strings.Replace(n.raw, `"hasSubscriptions":true`, `"hasSubscriptions":false`, 1)
			if n.name, _ = members[k.key].(string); n.name == "" {
				n.name = n.id
			}
			if k.member == "environments" {
				branches = append(branches, n.name)
			}
			for _, f := range k.fields {
				if v, exists := members[f]; exists && !isEmptyValue(v) {
					n.fields[f] = v
				}
			}
			if k.member == "tunnels" {
				services := p.call("TunneledServicesService_getServiceConfiguration", map[string]any{"tunnelId": n.id})["services"]
				if !isEmptyValue(services) {
					n.fields["services"] = services
				}
			}
			if k.member == "variables" && members["isSecret"] == true {
				delete(n.fields, "value") // the API never returns it
			}
			parent.children = append(parent.children, n)
			if k.argument != "" {
				p.fillNode(k.children, n, withArgument(arguments, k.argument, n.id))
			}
			if plans := n.list("plans"); k.member == "meteringBuckets" && len(plans) > 0 {
				n.name = firstPlan(n)
			}
		}
	}
}

func byName(a, b *node) int { return strings.Compare(a.name, b.name) }

func withArgument(arguments map[string]any, name string, v any) map[string]any {
	extended := maps.Clone(arguments)
	extended[name] = v
	return extended
}

// list returns the objects of a list within a node.
func (n *node) list(member string) (all []*node) {
	for _, child := range n.children {
		if child.kind.member == member {
			all = append(all, child)
		}
	}
	return all
}

func parseJSON(text []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	_ = d.Decode(&v)
	return v
}

// isEmptyValue reports whether a value is empty.
func isEmptyValue(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

// sleep runs the background work of the installation instead of waiting.
func (p *testProduct) sleep(ctx context.Context, _ time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p.FinishAll()
	return nil
}
