package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/functions/syntheticcheck"
)

// TestMain creates the folder of assets that tests share, and ends the CDK's process after the tests. It also makes the
// garbage collector run less often: templates are large and are used until the end, so a collection would free little
// memory.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	folder, err := os.MkdirTemp("", "gatewright-infra-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "infra:", err)
		os.Exit(1)
	}
	sharedAssets.folder = folder
	code := m.Run()
	jsii.Close()
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

// resource is a resource of a template.
type resource struct {
	Type           string
	DeletionPolicy string
	DependsOn      []string
	UpdatePolicy   map[string]any
	Properties     map[string]any
	Metadata       map[string]any
}

// template is the template of a stack.
type template struct {
	Resources map[string]resource
	Outputs   map[string]struct{ Value any }
	// Parameters are the parameters of a nested stack.
	Parameters map[string]any
}

// assembly is the output of the CDK for an installation.
type assembly struct {
	dir string // the folder of the output, or "" in a cached assembly, because its folder is deleted
	// raw has the templates as the CDK wrote them, by the names of their files.
	raw map[string][]byte
	// stacks has the stacks by the names of their files, including the installation's own.
	stacks map[string]template
}

// minimalContext returns the smallest valid context.
func minimalContext(overrides map[string]string) map[string]string {
	out := map[string]string{
		"gatewayDomain":  "apis.example.com",
		"certificateArn": "arn:aws:acm:eu-west-1:000000000000:certificate/c",
	}
	maps.Copy(out, overrides)
	return out
}

// settingsFor returns the settings of a context. The folder of assets has empty files in place of the binaries. All tests
// share the folder, so they must not write files to it. They may add empty folders.
func settingsFor(t *testing.T, context map[string]string) Settings {
	t.Helper()
	s := newSettingsFor(t, context)
	s.Assets = sharedAssets.folder
	sharedAssets.Lock()
	defer sharedAssets.Unlock()
	writeAssets(t, s, sharedAssets.written)
	return s
}

// settingsWithOwnAssets is like settingsFor, but the folder of assets is temporary, and the test may change its files.
func settingsWithOwnAssets(t *testing.T, context map[string]string) Settings {
	t.Helper()
	s := newSettingsFor(t, context)
	s.Assets = t.TempDir()
	writeAssets(t, s, map[string]bool{})
	return s
}

// sharedAssets is the folder of assets that tests share. TestMain creates and removes it. Each file is written once,
// because creating the files takes longer than most tests. written contains the paths of the files.
var sharedAssets = struct {
	sync.Mutex
	folder  string
	written map[string]bool
}{written: map[string]bool{}}

// newSettingsFor returns the settings of a context, with the folder of assets that the product uses.
func newSettingsFor(t *testing.T, context map[string]string) Settings {
	t.Helper()
	s, err := settingsFromContext(func(name string) any {
		if v, ok := context[name]; ok {
			return v
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// writeAssets creates an empty file for each binary in the folder of assets, except the paths in written, and adds the
// new paths to written.
func writeAssets(t *testing.T, s Settings, written map[string]bool) {
	t.Helper()
	paths := []string{filepath.Join(s.assetFolder(syntheticcheck.Function.Name), "bootstrap")}
	for _, f := range allFunctions(s) {
		paths = append(paths, filepath.Join(s.assetFolder(f.name), "bootstrap"))
	}
	for _, svc := range functions.Services() {
		paths = append(paths, s.containerBinary(svc.Name))
	}
	for _, path := range paths {
		if written[path] {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o700); err != nil {
			t.Fatal(err)
		}
		written[path] = true
	}
}

// allFunctions returns all functions in the stack of an installation, including the hook of releases.
func allFunctions(s Settings) []functionSpec { return append(functionSpecs(s), s.hookSpec()) }

// writeAsset creates the empty asset folder of an invented function.
func writeAsset(t *testing.T, s Settings, function string) {
	t.Helper()
	if err := os.MkdirAll(s.assetFolder(function), 0o700); err != nil {
		t.Fatal(err)
	}
}

// synthesize returns the installation of a context. Contexts with the same settings share one installation, which is
// synthesized only once. Tests must not change the installation. It has no folder (dir), because the folder is deleted
// at the end of the test that synthesized it.
func synthesize(t *testing.T, context map[string]string) assembly {
	t.Helper()
	return synthesizeCached(t, context, "all", functionSpecs)
}

// synthesizeFew returns the installation of a context with a few of the product's functions: those that events call,
// and one group of operations. It takes a fifth of the time of synthesize. Use it for tests of resources that do not
// depend on the functions: networks, services, domains, records, the table.
func synthesizeFew(t *testing.T, context map[string]string) assembly {
	t.Helper()
	return synthesizeCached(t, context, "few", fewFunctions)
}

// fewFunctions returns the functions that events call, and one group of operations.
func fewFunctions(s Settings) []functionSpec {
	return slices.DeleteFunc(functionSpecs(s), func(f functionSpec) bool {
		return len(f.routes) > 0 && f.name != "variables"
	})
}

// synthesizeCached returns the installation of a context with the functions that selectFunctions returns. kind is the
// name of that selection, for the cache.
func synthesizeCached(
	t *testing.T, context map[string]string, kind string, selectFunctions func(Settings) []functionSpec,
) assembly {
	t.Helper()
	synthesizedCache.Lock()
	defer synthesizedCache.Unlock()
	contextKey := fmt.Sprint(kind, context) // fmt sorts maps
	if a, ok := synthesizedCache.assemblies[contextKey]; ok {
		return a
	}
	s := settingsFor(t, context)
	withoutAssets := s
	withoutAssets.Assets = ""
	settingsKey := fmt.Sprintf("%s %+v", kind, withoutAssets)
	a, ok := synthesizedCache.assemblies[settingsKey]
	if !ok {
		a = synthesizeWith(t, s, selectFunctions(s))
		a.dir = ""
	}
	synthesizedCache.assemblies[contextKey], synthesizedCache.assemblies[settingsKey] = a, a
	return a
}

var synthesizedCache = struct {
	sync.Mutex
	assemblies map[string]assembly // each assembly under two keys: kind and context, and kind and settings
}{assemblies: map[string]assembly{}}

// synthesizeWith returns a new installation with these functions, or with the product's functions if specs is nil. The
// functions in setups can first add constructs to the CDK's app.
func synthesizeWith(t *testing.T, s Settings, specs []functionSpec, setups ...func(awscdk.App)) assembly {
	t.Helper()
	if specs == nil {
		specs = functionSpecs(s)
	}
	return assemble(t, append(setups, func(app awscdk.App) { newInstallation(app, s, specs, serviceSpecs(s)) })...)
}

// assemble returns the assembly of a new CDK app after all functions in setups have added constructs to the app.
func assemble(t *testing.T, setups ...func(awscdk.App)) assembly {
	t.Helper()
	a := assembly{dir: t.TempDir(), raw: map[string][]byte{}, stacks: map[string]template{}}
	app := awscdk.NewApp(&awscdk.AppProps{
		Outdir: &a.dir, AnalyticsReporting: jsii.Bool(false), TreeMetadata: jsii.Bool(false),
		// The CDK's command line sets this too. It adds the file of each nested stack to the stack's metadata.
		Context: &map[string]any{"aws:cdk:enable-asset-metadata": true},
	})
	for _, setup := range setups {
		setup(app)
	}
	app.Synth(nil)
	files, err := filepath.Glob(filepath.Join(a.dir, "*.template.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var tmpl template
		if err := json.Unmarshal(raw, &tmpl); err != nil {
			t.Fatal(err)
		}
		a.raw[filepath.Base(file)], a.stacks[filepath.Base(file)] = raw, tmpl
	}
	a.inline()
	return a
}

// inline replaces the parameters of nested stacks with the values from the parent, and references to outputs of other
// nested stacks with the values of the outputs. Tests can then read all stacks as if they were one.
func (a assembly) inline() {
	outputs := map[string]any{} // by the nested stack's logical id and the output's name
	for range 2 {               // a parameter can be an output of a stack that has parameters itself
		for _, parent := range a.stacks {
			for id, r := range parent.Resources {
				if r.Type != "AWS::CloudFormation::Stack" {
					continue
				}
				file, _ := r.Metadata["aws:asset:path"].(string)
				values, _ := r.Properties["Parameters"].(map[string]any)
				for name, nested := range a.stacks[file].Resources {
					nested.Properties, _ = replace(replace(nested.Properties, values), outputs).(map[string]any)
					a.stacks[file].Resources[name] = nested
				}
				for name, o := range a.stacks[file].Outputs {
					outputs[id+".Outputs."+name] = o.Value
				}
			}
		}
	}
}

// replace returns a copy of v. Where v refers to a name in values, the copy has the value instead of the reference.
func replace(v any, values map[string]any) any {
	switch v := v.(type) {
	case map[string]any:
		if name, ok := v["Ref"].(string); ok && len(v) == 1 && values[name] != nil {
			return values[name]
		}
		if attribute := v["Fn::GetAtt"]; attribute != nil && len(v) == 1 {
			if value := values[fmt.Sprint(get(attribute, 0), ".", get(attribute, 1))]; value != nil {
				return value
			}
		}
		out := make(map[string]any, len(v))
		for name, item := range v {
			out[name] = replace(item, values)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = replace(item, values)
		}
		return out
	}
	return v
}

// find returns a resource by its logical id, from any stack, or a resource without a type if there is none. If several
// stacks have the logical id, as the stacks of services do, it returns any of these resources.
func (a assembly) find(id string) resource {
	for _, s := range a.stacks {
		if r, ok := s.Resources[id]; ok {
			return r
		}
	}
	return resource{}
}

// all returns the resources of a type in all stacks, by their logical ids. If several stacks have a logical id, as the
// stacks of services do, it returns only one of these resources.
func (a assembly) all(kind string) map[string]resource {
	out := map[string]resource{}
	for _, s := range a.stacks {
		for id, r := range s.Resources {
			if r.Type == kind {
				out[id] = r
			}
		}
	}
	return out
}

// only returns the only resource of a type. It fails the test if there are more, or none.
func (a assembly) only(t *testing.T, kind string) resource {
	t.Helper()
	found := a.all(kind)
	if len(found) != 1 {
		t.Fatalf("%d resources are of the type %s, want one", len(found), kind)
	}
	return found[slices.Collect(maps.Keys(found))[0]]
}

// get returns the value in v at a path of names and indexes, or nil if there is none.
func get(v any, path ...any) any {
	for _, step := range path {
		switch s := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[s]
		case int:
			list, _ := v.([]any)
			if s >= len(list) {
				return nil
			}
			v = list[s]
		}
	}
	return v
}

// render returns a value of a template as text. References to values that CloudFormation resolves have the form
// ${Table.Arn}.
func render(v any) string {
	m, ok := v.(map[string]any)
	if !ok || len(m) != 1 {
		if text, ok := v.(string); ok {
			return text
		}
		raw, _ := json.Marshal(v)
		return string(raw)
	}
	for name, arg := range m {
		switch name {
		case "Ref":
			return fmt.Sprintf("${%s}", arg)
		case "Fn::Sub":
			return render(arg)
		case "Fn::GetAtt":
			return fmt.Sprintf("${%s.%s}", get(arg, 0), get(arg, 1))
		case "Fn::Join":
			var out []string
			parts, _ := get(arg, 1).([]any)
			for _, p := range parts {
				out = append(out, render(p))
			}
			return strings.Join(out, render(get(arg, 0)))
		}
	}
	raw, _ := json.Marshal(v)
	return string(raw)
}

// texts renders each value of a list, or a single value.
func texts(v any) []string {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	out := make([]string, 0, len(list))
	for _, e := range list {
		out = append(out, render(e))
	}
	return out
}
