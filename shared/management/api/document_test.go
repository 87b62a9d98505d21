package api_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/management/openapiext"
)

// openAPIDocument has the parts of a document that these tests check.
type openAPIDocument struct {
	Paths map[string]map[string]struct {
		Parameters  []struct{ Name, Example string }
		RequestBody struct{ Content contents }
		Responses   map[string]struct {
			Ref     string `json:"$ref"`
			Content contents
		}
	}
	Components struct {
		Schemas   map[string]schema
		Responses map[string]struct{ Content contents }
	}
}

type contents map[string]struct {
	Schema  schema
	Example json.RawMessage
}

type schema struct {
	Ref                  string `json:"$ref"`
	Type                 any
	Properties           map[string]schema
	AdditionalProperties json.RawMessage
}

// describe returns the document of the groups.
func describe(t *testing.T, examples api.Examples, groups ...api.Group) (d openAPIDocument) {
	t.Helper()
	raw, err := api.Document(groups, examples)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// post returns a POST operation with In and Out.
func post[In, Out any](id, path string) api.Operation[In, Out] {
	return api.Operation[In, Out]{ID: id, Method: http.MethodPost, Path: path, Public: true}
}

func emptyHandler[In, Out any](context.Context, *In) (*Out, error) { return new(Out), nil }

// builds and rollouts declare types with the same name, as two packages can.
// Types in different functions are different, like types in different packages.
func builds() (api.Group, api.Route) {
	type step struct {
		Build string `json:"build"`
	}
	type in struct {
		Body struct {
			Build int `json:"build"`
		} `nameHint:"Start"`
	}
	type out struct{ Body api.List[step] }
	o := post[in, out]("Builds_start", "/v1/builds")
	return api.Group{Name: "builds", Title: "Builds", Operations: []api.AnyOperation{o}},
		o.HandledBy(emptyHandler[in, out])
}

func rollouts() (api.Group, api.Route) {
	type step struct {
		Rollout string `json:"rollout"`
	}
	type in struct {
		Body struct {
			Rollout int `json:"rollout"`
		} `nameHint:"Start"`
	}
	type out struct{ Body api.List[step] }
	o := post[in, out]("Rollouts_start", "/v1/rollouts")
	return api.Group{Name: "rollouts", Title: "Rollouts", Operations: []api.AnyOperation{o}},
		o.HandledBy(emptyHandler[in, out])
}

// TestGroupsWithEqualTypeNames checks that types with the same name in two groups have different schemas in the
// document, and that the server checks each body against its own schema.
func TestGroupsWithEqualTypeNames(t *testing.T) {
	buildsGroup, buildsRoute := builds()
	rolloutsGroup, rolloutsRoute := rollouts()
	schemas := describe(t, api.Examples{}, buildsGroup, rolloutsGroup).Components.Schemas
	for name, field := range map[string]string{
		"BuildsStep": "build", "BuildsStart": "build", "RolloutsStep": "rollout",
		"RolloutsStart": "rollout",
	} {
		if _, ok := schemas[name].Properties[field]; !ok {
			t.Errorf("properties of the schema %s = %q, want %s",
				name, slices.Sorted(maps.Keys(schemas[name].Properties)), field)
		}
	}
	now := func() time.Time { return storetest.Epoch }
	f := &fixture{server: api.Open(installation.Parts{
		Log: slog.New(slog.DiscardHandler), IDs: ids.NewSource(storetest.Random(t), now), Now: now,
	}, nil, []api.Route{buildsRoute, rolloutsRoute})}
	for _, path := range []string{"/v1/builds", "/v1/rollouts"} {
		field := strings.TrimSuffix(strings.TrimPrefix(path, "/v1/"), "s")
		for body, want := range map[string]int{
			`{"` + field + `": 1}`:   http.StatusOK,
			`{"` + field + `": "1"}`: http.StatusBadRequest, `{}`: http.StatusBadRequest,
		} {
			if response, text := f.do(t, http.MethodPost, path, "", body); response.StatusCode != want {
				t.Errorf("POST %s %s = %d %s, want %d", path, body, response.StatusCode, text, want)
			}
		}
	}
}

// The types of a group. They are not declared in a function,
// because such a type has another name as an argument of List.
type (
	bucket struct {
		Name string `json:"name"`
	}
	bucketOwner struct {
		Name string `json:"name"`
	}
	bucketed struct {
		Name string `json:"name"`
	}
	token struct {
		Buckets []bucket    `json:"buckets"`
		Owner   bucketOwner `json:"owner"`
		Old     bucketed    `json:"old"`
	}
)

func TestSchemasAreNamedAfterTheirGroup(t *testing.T) {
	type in struct {
		Body struct{} `nameHint:"KeyBucketCreate"`
	}
	type listed struct{ Body api.List[bucket] }
	type tokens struct{ Body api.List[token] }
	type one struct{ Body token }
	d := describe(t, api.Examples{}, api.Group{Name: "keybuckets", Title: "Key buckets", Operations: []api.AnyOperation{
		post[in, listed]("A_a", "/a"), post[in, one]("B_b", "/b"), post[in, tokens]("C_c", "/c"),
	}})
	got := make([]string, 0, len(d.Components.Schemas))
	for name := range d.Components.Schemas {
		got = append(got, name)
	}
	slices.Sort(got)
	want := []string{
		"KeyBucket", "KeyBucketsBucketed", "KeyBucketsCreate", "KeyBucketsList", "KeyBucketsOwner",
		"KeyBucketsToken", "KeyBucketsTokenList", "Problem", "ProblemField", "Trace",
	}
	if !slices.Equal(got, want) {
		t.Errorf("names of the schemas = %q, want %q", got, want)
	}
}

// TestResponsesAreClosedAndRequestsOpen checks that schemas of responses forbid further
// fields. Schemas of requests must not mention further fields, which allows them.
func TestResponsesAreClosedAndRequestsOpen(t *testing.T) {
	type part struct {
		Name string `json:"name"`
	}
	type in struct {
		Body struct {
			Name string            `json:"name"`
			Tags map[string]string `json:"tags"`
		} `nameHint:"Create"`
	}
	type out struct {
		Body struct {
			Parts []part            `json:"parts"`
			Tags  map[string]string `json:"tags"`
		} `nameHint:"Whole"`
	}
	schemas := describe(t, api.Examples{},
		api.Group{Title: "Things", Operations: []api.AnyOperation{post[in, out]("A_a", "/a")}}).Components.Schemas
	for name, want := range map[string]string{
		"ThingsCreate": "", "ThingsWhole": "false", "ThingsPart": "false", "Problem": "false", "ProblemField": "false",
		"Trace": "false",
	} {
		if got := string(schemas[name].AdditionalProperties); got != want {
			t.Errorf("additionalProperties of %s = %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"ThingsCreate", "ThingsWhole"} {
		var value schema
		raw := schemas[name].Properties["tags"].AdditionalProperties
		if err := json.Unmarshal(raw, &value); err != nil || value.Type != "string" {
			t.Errorf("additionalProperties of the tags of %s = %s, %v, want the type string", name, raw, err)
		}
	}
}

func TestTypeInRequestAndResponseIsAnError(t *testing.T) {
	type shared struct {
		Name string `json:"name"`
	}
	type both struct{ Body shared }
	_, err := api.Document([]api.Group{{Title: "Things", Operations: []api.AnyOperation{post[both, both]("A_a", "/a")}}},
		api.Examples{})
	if err == nil || !strings.Contains(err.Error(), "ThingsShared is both sent and answered") {
		t.Errorf("Document() error = %v, want \"ThingsShared is both sent and answered\"", err)
	}
}

func TestPatternNeedsDescription(t *testing.T) {
	type undescribed struct {
		Body struct {
			Name string `json:"name" pattern:"^[a-z]$"`
		}
	}
	type described struct {
		Body struct {
			Name string `json:"name" pattern:"^[a-z]$" patternDescription:"one small letter"`
		}
	}
	_, err := api.Document(
		[]api.Group{{Title: "Things", Operations: []api.AnyOperation{post[undescribed, struct{}]("A_a", "/a")}}},
		api.Examples{})
	if err == nil || !strings.Contains(err.Error(), "^[a-z]$") {
		t.Errorf("Document() error = %v, want one with the pattern ^[a-z]$", err)
	}
	raw, err := api.Document(
		[]api.Group{{Title: "Things", Operations: []api.AnyOperation{post[described, struct{}]("A_a", "/a")}}},
		api.Examples{})
	if err != nil || strings.Contains(string(raw), "one small letter") {
		t.Errorf("Document() = %s, %v, want no error and no description of the pattern", raw, err)
	}
}

func TestRawJSONIsDescribedAsObject(t *testing.T) {
	type text struct{ Body []byte }
	d := describe(t, api.Examples{},
		api.Group{Title: "Things", Operations: []api.AnyOperation{post[struct{}, text]("A_a", "/a")}})
	got := d.Paths["/a"]["post"].Responses["200"].Content["application/json"].Schema
	if got.Type != "object" || string(got.AdditionalProperties) != "true" {
		t.Errorf("schema of raw JSON: type %v, additionalProperties %s, want object, true",
			got.Type, got.AdditionalProperties)
	}
}

// TestHiddenOperationsAreNotDescribed checks that the document has
// neither hidden operations nor types that only hidden operations use.
func TestHiddenOperationsAreNotDescribed(t *testing.T) {
	type in struct {
		Page string `path:"page"`
		Body struct {
			Size int `json:"size"`
		}
	}
	hidden, visible := post[in, struct{}]("A_hidden", "/docs/{page}"), post[struct{}, struct{}]("A_seen", "/seen")
	hidden.Hidden = true
	d := describe(t, api.Examples{}, api.Group{Title: "Things", Operations: []api.AnyOperation{hidden, visible}})
	if len(d.Paths) != 1 || d.Paths["/seen"] == nil || len(d.Components.Schemas) != 3 {
		t.Errorf("paths = %q with %d schemas, want only /seen, with the 3 schemas of problems",
			slices.Sorted(maps.Keys(d.Paths)), len(d.Components.Schemas))
	}
}

// TestEffect checks that an operation without an audit action reads. For other operations, the method determines the
// effect, except for a POST that declares Replaces.
func TestEffect(t *testing.T) {
	for _, tt := range []struct {
		method   string
		action   audit.Action
		replaces bool
		want     openapiext.Effect
	}{
		{http.MethodGet, "", false, openapiext.Reads},
		{http.MethodPost, "", false, openapiext.Reads},
		{http.MethodPost, "thing.create", false, openapiext.Adds},
		{http.MethodPost, "thing.roll", true, openapiext.Replaces},
		{http.MethodPut, "thing.put", false, openapiext.Replaces},
		{http.MethodPatch, "thing.update", false, openapiext.Replaces},
		{http.MethodDelete, "thing.delete", false, openapiext.Removes},
	} {
		o := post[struct{}, struct{}]("A_thing", "/things")
		o.Method, o.Audit, o.Replaces = tt.method, tt.action, tt.replaces
		if got := o.Declaration().Effect(); got != tt.want {
			t.Errorf("Effect() of %s with the action %q = %s, want %s", tt.method, tt.action, got, tt.want)
		}
	}
}

func TestExamplesAreShown(t *testing.T) {
	type in struct {
		Name string `path:"name"`
		Body struct {
			Size int `json:"size"`
		} `nameHint:"Create"`
	}
	type out struct {
		Body struct {
			Size int `json:"size"`
		} `nameHint:"Thing"`
	}
	o := post[in, out]("A_a", "/a/{name}")
	o.Status = http.StatusCreated
	d := describe(t, api.Examples{
		Operations: map[string]api.Example{"A_a": {
			Path: map[string]string{"name": "it"}, Request: json.RawMessage(`{"size":1}`),
			Response: json.RawMessage(`{"size":2}`),
		}},
		Problems: map[int]json.RawMessage{http.StatusBadRequest: json.RawMessage(`{"status":400}`)},
	}, api.Group{Title: "Things", Operations: []api.AnyOperation{o}})
	op := d.Paths["/a/{name}"]["post"]
	for name, tt := range map[string]struct {
		example json.RawMessage
		want    string
	}{
		"request":  {op.RequestBody.Content["application/json"].Example, `{"size":1}`},
		"response": {op.Responses["201"].Content["application/json"].Example, `{"size":2}`},
		"problem":  {d.Components.Responses["BadRequest"].Content["application/problem+json"].Example, `{"status":400}`},
	} {
		if got := strings.Join(strings.Fields(string(tt.example)), ""); got != tt.want {
			t.Errorf("example of the %s = %s, want %s", name, got, tt.want)
		}
	}
	if len(op.Parameters) != 1 || op.Parameters[0].Example != "it" {
		t.Errorf("parameters = %+v, want one with the example \"it\"", op.Parameters)
	}
	if got, want := op.Responses["400"].Ref, "#/components/responses/BadRequest"; got != want {
		t.Errorf("reference of the response 400 = %q, want %q", got, want)
	}
}
