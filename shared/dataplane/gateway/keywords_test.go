package gateway_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/openapi"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/format/schema"
	"github.com/gatewright/gatewright/shared/format/yamljson"
)

// keywordSamples is testdata/keywords.yaml, which describes its members.
type keywordSamples struct {
	Base     map[string]any
	Policies map[string]any
	Samples  map[string]map[string]keywordCases
}

// keywordSample shows the effect of a keyword: a description with the keyword, and one without it.
type keywordSample struct {
	// At is the pointer of the keyword. Value is its value. Names that begin with $ stand for pointers (keywordPointers).
	At    string
	Value any
	// Versions are the versions that the sample applies to, and all that the keyword has if it is empty. With Once, the
	// sample runs once, for all versions.
	Versions string
	Once     bool
	// Proves are the effects that the sample shows, and all effects of the keyword if it is empty.
	Proves string
	// With are changes of the base description. Without are the changes that lead to the description without the keyword.
	// If it is empty, the keyword is removed. A value null removes a member.
	With, Without map[string]any
	// Accepts and Refuses are messages that match the description with the keyword, and that do not.
	Accepts, Refuses *keywordMessage
	// Files are further files of the project.
	Files map[string]any
}

// keywordCases are one sample or a list of samples.
type keywordCases []keywordSample

// UnmarshalJSON implements json.Unmarshaler.
func (c *keywordCases) UnmarshalJSON(data []byte) error {
	var one keywordSample
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if bytes.HasPrefix(data, []byte("[")) {
		var all []keywordSample
		err := decoder.Decode(&all)
		*c = all
		return err
	}
	err := decoder.Decode(&one)
	*c = keywordCases{one}
	return err
}

// keywordMessage is a request, or a response with the same content. As a text, it is a body in JSON.
type keywordMessage struct {
	Path, Query, Body, Type string
	Header                  map[string]string
	Status                  int
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *keywordMessage) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte(`"`)) {
		return json.Unmarshal(data, &m.Body)
	}
	type plain keywordMessage
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	return decoder.Decode((*plain)(m))
}

// keywordPointers are the pointers that names in samples stand for.
var keywordPointers = map[string]string{
	"$item": "/paths/~1items~1{id}", "$op": "/paths/~1items~1{id}/post", "$q": "/paths/~1items~1{id}/post/parameters/0",
	"$body":   "/paths/~1items~1{id}/post/requestBody/content/application~1json",
	"$form":   "/paths/~1items~1{id}/post/requestBody/content/application~1x-www-form-urlencoded",
	"$ok":     "/paths/~1items~1{id}/post/responses/200",
	"$schema": "/components/schemas/S", "$scheme": "/components/securitySchemes/s",
}

// keywordVersions are the versions of the descriptions, by version of OpenAPI.
var keywordVersions = map[project.Versions]string{
	project.Version30: "3.0.3", project.Version31: "3.1.1", project.Version32: "3.2.0",
}

// TestKeywordsHaveTheirEffects builds a description with each keyword and one without it, and compares them: what the
// build makes of both, its warnings, and which messages match. A keyword of project.Keywords without samples for all its
// versions and effects fails the test.
func TestKeywordsHaveTheirEffects(t *testing.T) {
	t.Parallel()
	var all keywordSamples
	data, err := os.ReadFile("testdata/keywords.yaml")
	if err != nil {
		t.Fatal(err)
	}
	readYAML(t, data, &all)
	for _, g := range project.Keywords() {
		for _, name := range g.Names {
			keyword := g.Object + "/" + name
			samples := all.Samples[g.Object][name]
			delete(all.Samples[g.Object], name)
			for version, text := range keywordVersions {
				if !g.Versions.Includes(version) {
					continue
				}
				proven := map[string]bool{}
				for _, s := range samples {
					if !s.Once && s.Versions != "" && !strings.Contains(s.Versions, text[:3]) {
						continue
					}
					effects := effectsOf(&g, s.Proves)
					for _, e := range effects {
						proven[string(e)] = true
					}
					if s.Once && version != project.Version31 && g.Versions.Includes(project.Version31) {
						continue
					}
					t.Run(keyword+" "+text, func(t *testing.T) {
						t.Parallel()
						all.check(t, s, text, effects)
					})
				}
				for _, e := range g.Effects {
					if !proven[string(e)] {
						t.Errorf("%s in OpenAPI %s: samples of the effect %q = none, want one in testdata/keywords.yaml", keyword,
							text[:3], e)
					}
				}
			}
		}
	}
	for object, names := range all.Samples {
		for name := range names {
			t.Errorf("sample of %s/%s = present, want none: there is no such keyword", object, name)
		}
	}
}

// effectsOf returns the effects that a sample proves.
func effectsOf(g *project.KeywordGroup, proves string) []project.KeywordEffect {
	if proves == "" {
		return g.Effects
	}
	var out []project.KeywordEffect
	for effect := range strings.SplitSeq(proves, ",") {
		out = append(out, project.KeywordEffect(strings.TrimSpace(effect)))
	}
	return out
}

// check compares the builds with and without the keyword.
func (k *keywordSamples) check(t *testing.T, s keywordSample, version string, effects []project.KeywordEffect) {
	t.Helper()
	description := clone(t, k.Base)
	setMember(t, description, "/openapi", version)
	for _, at := range slices.Sorted(maps.Keys(s.With)) {
		setMember(t, description, at, s.With[at])
	}
	changed := clone(t, description)
	setMember(t, description, s.At, s.Value)
	for _, at := range slices.Sorted(maps.Keys(s.Without)) {
		setMember(t, changed, at, s.Without[at])
	}
	with, without := k.build(t, description, s.Files), k.build(t, changed, s.Files)
	if with.artifact == nil {
		t.Fatalf("build with the keyword: errors = %q, want none", with.errors)
	}
	for _, effect := range effects {
		switch effect {
		case project.EffectRequests, project.EffectResponses:
			s.checkMessages(t, effect, with, without)
		case project.EffectRoutes:
			wantDifference(t, effect, routeNames(with), routeNames(without), true)
		case project.EffectSecurity:
			wantDifference(t, effect, with.security(), without.security(), true)
		case project.EffectTools, project.EffectPassedOn:
			wantDifference(t, effect, with.tools(t), without.tools(t), true)
			wantDifference(t, effect, with.newWarnings(without), nil, false)
		case project.EffectStructure:
			wantDifference(t, effect, with.encoded(t), without.encoded(t), true)
		case project.EffectReaders, project.EffectInit:
			wantDifference(t, effect, with.encoded(t), without.encoded(t), false)
			wantDifference(t, effect, with.newWarnings(without), nil, false)
		case project.EffectWarned:
			at := expandPointer(s.At)
			if !slices.ContainsFunc(with.warnings, func(p project.Problem) bool { return p.Path == at }) {
				t.Errorf("build with the keyword: warnings = %v, want one at %s", with.warnings, at)
			}
			if slices.ContainsFunc(without.warnings, func(p project.Problem) bool { return p.Path == at }) {
				t.Errorf("build without the keyword: warnings = %v, want none at %s", without.warnings, at)
			}
		default:
			t.Errorf("effect %q = unknown, want one of project.KeywordEffects()", effect)
		}
	}
}

// wantDifference compares results of the builds with and without a keyword.
func wantDifference(t *testing.T, effect project.KeywordEffect, with, without []string, want bool) {
	t.Helper()
	if got := !slices.Equal(with, without); got != want {
		t.Errorf("effect %q: builds with and without the keyword differ = %t, want %t:\n%q\n%q", effect, got, want, with,
			without)
	}
}

// checkMessages checks that the messages match and do not match the description with the keyword, and that at least one
// of them shows the difference to the description without it.
func (s *keywordSample) checkMessages(t *testing.T, effect project.KeywordEffect, with, without keywordBuild) {
	t.Helper()
	if s.Accepts == nil || s.Refuses == nil {
		t.Fatalf("sample of the effect %q has accepts and refuses = %v and %v, want both", effect, s.Accepts, s.Refuses)
	}
	matches := keywordBuild.matchesRequest
	if effect == project.EffectResponses {
		matches = keywordBuild.matchesResponse
	}
	if found := matches(with, t, s.Accepts); len(found) > 0 {
		t.Errorf("effect %q: violations of %+v = %v, want none", effect, *s.Accepts, found)
	}
	if found := matches(with, t, s.Refuses); len(found) == 0 {
		t.Errorf("effect %q: violations of %+v = none, want some", effect, *s.Refuses)
	}
	if without.artifact != nil && len(matches(without, t, s.Accepts)) == 0 && len(matches(without, t, s.Refuses)) > 0 {
		t.Errorf("effect %q: the results of both messages without the keyword = the same as with it, want another", effect)
	}
}

// keywordBuild is the result of a build.
type keywordBuild struct {
	artifact *project.Artifact // nil if there are errors
	errors   []string
	warnings []project.Problem
}

// build builds a project with a description.
func (k *keywordSamples) build(t *testing.T, description, more map[string]any) keywordBuild {
	t.Helper()
	files := project.Files{
		"config/routes.oas.json": encodeJSON(t, description), "config/policies.json": encodeJSON(t, k.Policies),
	}
	for name, content := range more {
		files[name] = encodeJSON(t, content)
	}
	a, result := tryBuild(t, files)
	out := keywordBuild{artifact: a, warnings: result.Warnings}
	for _, p := range result.Errors {
		out.errors = append(out.errors, p.Path+": "+p.Message)
	}
	return out
}

// newWarnings returns the warnings that the other build has not. It ignores places in the text. A build with errors has
// not all warnings, so that there is no comparison with it.
func (b keywordBuild) newWarnings(other keywordBuild) []string {
	var out []string
	if other.artifact == nil {
		return nil
	}
	for _, p := range b.warnings {
		if !slices.ContainsFunc(other.warnings, func(o project.Problem) bool {
			return o.Path == p.Path && o.Message == p.Message
		}) {
			out = append(out, p.Path+": "+p.Message)
		}
	}
	return out
}

// route returns the route POST /items/{id}.
func (b keywordBuild) route() *project.Route {
	for i, r := range b.artifact.Routes {
		if r.Method == http.MethodPost && r.Path == "/items/{id}" {
			return &b.artifact.Routes[i]
		}
	}
	return &project.Route{}
}

// encoded returns the artifact, or the errors.
func (b keywordBuild) encoded(t *testing.T) []string {
	t.Helper()
	if b.artifact == nil {
		return b.errors
	}
	return []string{string(encodeJSON(t, b.artifact))}
}

func routeNames(b keywordBuild) []string {
	if b.artifact == nil {
		return b.errors
	}
	var out []string
	for _, r := range b.artifact.Routes {
		out = append(out, r.Method+" "+r.Path)
	}
	return out
}

// security returns the policies of the route, and the warnings.
func (b keywordBuild) security() []string {
	if b.artifact == nil {
		return b.errors
	}
	out := slices.Clone(b.route().Inbound)
	for _, p := range b.warnings {
		out = append(out, p.Message)
	}
	return out
}

// tools returns what MCP servers offer of the route.
func (b keywordBuild) tools(t *testing.T) []string {
	t.Helper()
	if b.artifact == nil {
		return b.errors
	}
	return []string{string(encodeJSON(t, b.route().MCPOperation))}
}

// matchesRequest returns the violations of a request.
func (b keywordBuild) matchesRequest(t *testing.T, m *keywordMessage) []openapi.Violation {
	t.Helper()
	request, err := openapi.CompileRequest(schema.NewDefinitions(b.artifact.Definitions), b.route().Request)
	if err != nil {
		t.Fatalf("CompileRequest() error = %v, want none", err)
	}
	var r openapi.Report
	request.CheckPath(&r, func(string) (string, bool) { return cmp.Or(m.Path, "1"), true })
	request.CheckQuery(&r, m.Query)
	request.CheckHeaders(&r, m.header())
	request.CheckBody(&r, cmp.Or(m.Type, "application/json"), []byte(m.Body))
	return r.Violations
}

// matchesResponse returns the violations of a response.
func (b keywordBuild) matchesResponse(t *testing.T, m *keywordMessage) []openapi.Violation {
	t.Helper()
	response, err := openapi.CompileResponse(schema.NewDefinitions(b.artifact.Definitions), b.route().Responses)
	if err != nil {
		t.Fatalf("CompileResponse() error = %v, want none", err)
	}
	var r openapi.Report
	status := cmp.Or(m.Status, http.StatusOK)
	response.CheckHead(&r, status, m.header())
	if m.Body != "" {
		response.CheckBody(&r, status, cmp.Or(m.Type, "application/json"), []byte(m.Body))
	}
	return r.Violations
}

func (m *keywordMessage) header() http.Header {
	h := http.Header{}
	for name, value := range m.Header {
		h.Set(name, value)
	}
	return h
}

// expandPointer replaces a name at the beginning of a pointer.
func expandPointer(at string) string {
	name, rest, _ := strings.Cut(at, "/")
	if expanded, known := keywordPointers[name]; known && name != "" {
		if rest == "" {
			return expanded
		}
		return expanded + "/" + rest
	}
	return at
}

// setMember sets a member of a description, or removes it if the value is nil. It creates objects on the way. An index
// that is the length of a list appends to the list.
func setMember(t *testing.T, root map[string]any, at string, value any) {
	t.Helper()
	value = clone(t, map[string]any{"value": value})["value"] // changes of the description must not change the sample
	tokens := strings.Split(strings.TrimPrefix(expandPointer(at), "/"), "/")
	current, store := any(root), func(any) {}
	for i, token := range tokens {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		isLast := i == len(tokens)-1
		switch parent := current.(type) {
		case map[string]any:
			if isLast && value == nil {
				delete(parent, token)
				return
			}
			if isLast {
				parent[token] = value
				return
			}
			if parent[token] == nil {
				parent[token] = map[string]any{}
			}
			current, store = parent[token], func(v any) { parent[token] = v }
		case []any:
			index, err := strconv.Atoi(token)
			if err != nil || index > len(parent) {
				t.Fatalf("setMember(%s): index = %s, want at most %d", at, token, len(parent))
			}
			if index == len(parent) {
				parent = append(parent, map[string]any{})
				store(parent)
			}
			if isLast {
				parent[index] = value
				return
			}
			current, store = parent[index], func(v any) { parent[index] = v }
		default:
			t.Fatalf("setMember(%s): value at %s = %s, want an object or a list", at, token, reflect.TypeOf(current))
		}
	}
}

func encodeJSON(t *testing.T, value any) []byte {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func clone(t *testing.T, value map[string]any) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := json.Unmarshal(encodeJSON(t, value), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// readYAML reads a text in YAML.
func readYAML(t *testing.T, text []byte, out any) {
	t.Helper()
	const maxBytes = 1 << 20
	d, err := yamljson.Parse(text)
	if err != nil {
		t.Fatal(fmt.Errorf("read YAML: %w", err))
	}
	data, err := d.JSON(maxBytes)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, out); err != nil {
		t.Fatal(err)
	}
}

// TestValidationWithoutInputIsReported builds a route with request-validation-inbound whose description has no parameters
// and no body.
func TestValidationWithoutInputIsReported(t *testing.T) {
	t.Parallel()
	var all keywordSamples
	data, err := os.ReadFile("testdata/keywords.yaml")
	if err != nil {
		t.Fatal(err)
	}
	readYAML(t, data, &all)
	const operation, at = "/paths/~1none/get", "/x-gateway-route/policies/inbound/1"
	setMember(t, all.Base, operation, all.Base["paths"].(map[string]any)["/items/{id}"].(map[string]any)["post"])
	for _, name := range []string{"operationId", "parameters", "requestBody"} {
		setMember(t, all.Base, operation+"/"+name, nil)
	}
	setMember(t, all.Base, operation+"/x-gateway-route/policies/inbound", []any{"bearer", "validate"})
	b := all.build(t, all.Base, nil)
	for _, p := range b.warnings {
		if strings.HasPrefix(p.Path, operation) && p.Path != operation+at {
			t.Errorf("build: warning at %s = %s, want none", p.Path, p.Message)
		}
	}
	if !slices.ContainsFunc(b.warnings, func(p project.Problem) bool { return p.Path == operation+at }) {
		t.Errorf("build: warnings = %v, want one at %s", b.warnings, operation+at)
	}
}
