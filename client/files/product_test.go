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

// product is an installation in memory as it is asked by the client: no double of the API, but its own handlers.
type product struct {
	*functionstest.World
	api *call.API
	key string
	// cut is told of each request that is sent, from 1, and says whether it is lost before it is handled or its answer after that; nil for neither.
	cut  func(n int, r *http.Request) (before, after bool)
	sent int
	// changes are the requests that were handled, and are no reads.
	changes []string
}

func newProduct(t *testing.T) *product {
	t.Helper()
	var binds []functionstest.Bind
	for _, g := range functions.Groups() {
		binds = append(binds, g.Bind)
	}
	p := &product{World: functionstest.New(t, binds...)}
	p.key = p.World.Account("acme")
	p.open(t)
	return p
}

// copied is one of the same content, in which nothing that happens is seen in the other.
func (p *product) copied(t *testing.T) *product {
	t.Helper()
	c := &product{World: p.Copy(t), key: p.key}
	c.open(t)
	return c
}

func (p *product) open(t *testing.T) {
	t.Helper()
	env := map[string]string{profile.VarURL: "http://127.0.0.1:1", profile.VarKey: p.key, profile.VarAccount: "acme"}
	access, err := (&profile.Profiles{}).Decide(profile.Typed{}, func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	p.api = &call.API{Access: access, HTTP: &http.Client{Transport: p}, Sleep: p.sleep}
}

// RoundTrip implements http.RoundTripper.
func (p *product) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	p.sent++
	var before, after bool
	if p.cut != nil {
		before, after = p.cut(p.sent, r)
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
	a := p.Call(p.key, r.Method, r.URL.RequestURI(), string(body), headers...)
	if r.Method != http.MethodGet {
		p.changes = append(p.changes, r.Method+" "+r.URL.Path)
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if after {
		return nil, io.ErrUnexpectedEOF
	}
	return &http.Response{StatusCode: a.Status, Header: a.Header, Body: io.NopCloser(strings.NewReader(a.Body)), Request: r}, nil
}

// ask makes a request by the operation's name, as another client would.
func (p *product) ask(operation string, arguments map[string]any) map[string]any {
	p.Helper()
	answer, err := p.api.Named(p.Context(), operation, arguments)
	if err != nil {
		p.Fatalf("%s %v: %v", operation, arguments, err)
	}
	var body map[string]any
	_ = json.Unmarshal(answer.Body, &body)
	return body
}

// node is an object of an account or of files, as the oracle has it: fields that are not set are not there.
type node struct {
	row    *row
	name   string
	fields map[string]any
	below  []*node
	// complete are the lists within it that are said to be all; for files.
	complete []string
	// raw is the whole of what is listed of it, without what is within; id is what its path has. Both are for worlds.
	raw, id string
}

// row is what the documentation says of a kind: its list, its name, and its fields, of which fixed ones never change.
type row struct {
	member, one, key     string
	fields               []string
	fixed                []string
	list, create, remove string
	argument, id         string
	below                []*row
	// goes are the lists of what goes with one that is deleted.
	goes []string
}

func has(list []string, one string) bool { return slices.Contains(list, one) }

// rows are the kinds of docs/files.md, written from there and from the API's operations.
func rows() []*row {
	variables := &row{member: "variables", one: "variable", key: "name", fields: []string{"isSecret", "value"}, fixed: []string{"isSecret"}, list: "VariablesService_list", create: "VariablesService_create", argument: "variableName", id: "name", remove: "yes"}
	managers := &row{member: "managers", one: "manager", key: "email", fields: []string{"sub"}, fixed: []string{"sub"}, list: "ApiKeyConsumerManagers_list", create: "ApiKeyConsumerManagers_create", id: "id", remove: "yes"}
	keys := &row{member: "keys", one: "key", key: "description", fields: []string{"expiresOn"}, list: "ApiKeyKeysService_list", id: "id"}
	return []*row{
		{
			member: "projects", one: "project", key: "name", list: "ProjectsService_list", create: "ProjectsService_create", argument: "projectName", id: "name", remove: "yes", goes: []string{"deployments", "certificates"},
			below: []*row{
				{member: "environments", one: "environment", key: "branchName", fields: []string{"environmentType"}, fixed: []string{"environmentType"}, list: "EnvironmentsService_list", create: "EnvironmentsService_create", id: "branchName"},
				{member: "branches", one: "branch", key: "name", argument: "branchName", below: []*row{variables}},
			},
		},
		{
			member: "keyBuckets", one: "key bucket", key: "name", fields: []string{"description", "isRetrievable", "tags"}, fixed: []string{"isRetrievable"}, list: "ApiKeyBucketsService_list", create: "ApiKeyBucketsService_create", argument: "bucketName", id: "name", remove: "yes", goes: []string{"consumers"},
			below: []*row{{
				member: "consumers", one: "consumer", key: "name", fields: []string{"description", "metadata", "tags"}, list: "ApiKeyConsumersService_list", create: "ApiKeyConsumersService_create", argument: "consumerName", id: "name", remove: "yes", goes: []string{"keys", "managers"},
				below: []*row{managers, keys},
			}},
		},
		{member: "tunnels", one: "tunnel", key: "name", fields: []string{"services"}, list: "TunnelService_list", create: "TunnelService_create", argument: "tunnelId", id: "id", remove: "yes"},
		{
			member: "meteringBuckets", one: "metering bucket", list: "MeteringBucketsService_list", create: "MeteringBucketsService_create", argument: "bucketId", id: "id", remove: "yes", goes: []string{"plans", "subscriptions"},
			below: []*row{
				{member: "plans", one: "plan", key: "planExternalId", fields: []string{"label", "meters", "trialDays"}, list: "MeteringPlansService_list", create: "MeteringPlansService_create", argument: "planId", id: "id", remove: "yes"},
				{
					member: "subscriptions", one: "subscription", key: "subscriptionExternalId", fields: []string{"customerExternalId", "customerKey", "metadata", "planExternalIds", "region", "renewalStrategy", "status", "type"},
					fixed: []string{"customerExternalId", "customerKey", "region", "renewalStrategy", "type"}, list: "MeteringSubscriptionsService_list", create: "MeteringSubscriptionsService_create", id: "id", remove: "yes",
				},
			},
		},
		{member: "caCertificates", one: "CA certificate", key: "name", list: "ClientMtlsCaCertificatesService_list", create: "ClientMtlsCaCertificatesService_create", id: "id", remove: "yes"},
		{member: "customDomains", one: "custom domain", key: "hostname", list: "CustomDomainsService_list", create: "CustomDomainsService_create", id: "hostname", remove: "yes"},
	}
}

// world reads all that the account has.
func (p *product) world() *node {
	p.Helper()
	top := &node{}
	p.fill(rows(), top, map[string]any{})
	return top
}

func (p *product) fill(kinds []*row, into *node, above map[string]any) {
	p.Helper()
	branches := []string{"main"}
	for _, k := range kinds {
		if k.member == "branches" {
			for _, name := range branches {
				b := &node{row: k, name: name, id: name}
				into.below = append(into.below, b)
				p.fill(k.below, b, with(above, k.argument, name))
			}
			continue
		}
		document, err := p.api.List(p.Context(), k.list, maps.Clone(above))
		if err != nil {
			p.Fatal(err)
		}
		var listed struct{ Data []json.RawMessage }
		if err := json.Unmarshal(document, &listed); err != nil {
			p.Fatal(err)
		}
		if k.member == "managers" {
			var consumer struct{ ManagerInvites []json.RawMessage }
			answer, err := p.api.Named(p.Context(), "ApiKeyConsumersService_read", with(above, "include-manager-invites", true))
			if err != nil || json.Unmarshal(answer.Body, &consumer) != nil {
				p.Fatal(err)
			}
			listed.Data = append(listed.Data, consumer.ManagerInvites...)
		}
		for _, raw := range listed.Data {
			one, _ := value(raw).(map[string]any)
			n := &node{row: k, raw: string(raw), fields: map[string]any{}}
			n.id, _ = one[k.id].(string)
			if k.member == "customDomains" {
				n.raw = n.id // whose proof goes on while a test waits
			}
			n.raw = strings.Replace(n.raw, `"hasSubscriptions":true`, `"hasSubscriptions":false`, 1) // which those tell
			if n.name, _ = one[k.key].(string); n.name == "" {
				n.name = n.id
			}
			if k.member == "environments" {
				branches = append(branches, n.name)
			}
			for _, f := range k.fields {
				if v, there := one[f]; there && !nothing(v) {
					n.fields[f] = v
				}
			}
			if k.member == "tunnels" {
				if services := p.ask("TunneledServicesService_getServiceConfiguration", map[string]any{"tunnelId": n.id})["services"]; !nothing(services) {
					n.fields["services"] = services
				}
			}
			if k.member == "variables" && one["isSecret"] == true {
				delete(n.fields, "value") // which nobody is told
			}
			into.below = append(into.below, n)
			if k.argument != "" {
				p.fill(k.below, n, with(above, k.argument, n.id))
			}
			if plans := n.list("plans"); k.member == "meteringBuckets" && len(plans) > 0 {
				n.name = first(n)
			}
		}
	}
}

func byName(a, b *node) int { return strings.Compare(a.name, b.name) }

func with(above map[string]any, name string, v any) map[string]any {
	more := maps.Clone(above)
	more[name] = v
	return more
}

// list are the objects within one that a list has.
func (n *node) list(member string) (all []*node) {
	for _, b := range n.below {
		if b.row.member == member {
			all = append(all, b)
		}
	}
	return all
}

func value(text []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	_ = d.Decode(&v)
	return v
}

// nothing reports whether a value says that there is none.
func nothing(v any) bool {
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

// sleep carries out what goes on, in place of a wait.
func (p *product) sleep(ctx context.Context, _ time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p.Settle()
	return nil
}
