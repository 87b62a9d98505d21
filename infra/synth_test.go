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

// TestMain ends the CDK's process with the tests'. Templates are large and stay until the end, so that the garbage collector would find
// little.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	code := m.Run()
	jsii.Close()
	os.Exit(code)
}

// resource is one of a template.
type resource struct {
	Type           string
	DeletionPolicy string
	DependsOn      []string
	UpdatePolicy   map[string]any
	Properties     map[string]any
	Metadata       map[string]any
}

// template is a stack's.
type template struct {
	Resources map[string]resource
	Outputs   map[string]struct{ Value any }
	// Parameters are what a nested stack is given.
	Parameters map[string]any
}

// assembly is what the CDK makes of an installation.
type assembly struct {
	dir string // "" once it is gone
	// raw are the templates as the CDK wrote them, by the name of their file.
	raw map[string][]byte
	// stacks by the name of their file; the installation's own is one of them.
	stacks map[string]template
}

// needed is the smallest context there is.
func needed(more map[string]string) map[string]string {
	out := map[string]string{"gatewayDomain": "apis.example.com", "certificateArn": "arn:aws:acm:eu-west-1:000000000000:certificate/c"}
	maps.Copy(out, more)
	return out
}

// settingsFor reads a context, with empty binaries in place of those that only
// a build makes.
func settingsFor(t *testing.T, context map[string]string) Settings {
	t.Helper()
	s, err := settingsOf(func(name string) any {
		if v, ok := context[name]; ok {
			return v
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Assets = t.TempDir()
	names := []string{syntheticcheck.Function.Name}
	for _, f := range everyFunction(s) {
		names = append(names, f.name)
	}
	for _, name := range names {
		if err := os.MkdirAll(s.asset(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.asset(name), "bootstrap"), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, of := range functions.Services() {
		if err := os.MkdirAll(filepath.Dir(s.container(of.Name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.container(of.Name), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// everyFunction returns all functions in the stack of an installation, with the hook of releases.
func everyFunction(s Settings) []declared { return append(declaredFunctions(s), s.hook()) }

// writeAsset writes what is to stand for the binary of a function that is invented.
func writeAsset(t *testing.T, s Settings, function string) {
	t.Helper()
	if err := os.MkdirAll(s.asset(function), 0o700); err != nil {
		t.Fatal(err)
	}
}

// synthesise returns the installation of a context. Contexts with the same settings share one installation, which is synthesized
// once in a run. Tests must not change it, and it has no folder.
func synthesise(t *testing.T, context map[string]string) assembly {
	t.Helper()
	return synthesiseOnce(t, context, "all", declaredFunctions)
}

// synthesiseFew returns the installation of a context with a few of the product's functions: those that events call, and one group of
// operations. It takes a fifth of the time, and is for tests of what is there once, whatever the functions are: networks, services,
// domains, records, the table.
func synthesiseFew(t *testing.T, context map[string]string) assembly {
	t.Helper()
	return synthesiseOnce(t, context, "few", fewFunctions)
}

// fewFunctions returns the functions that events call, and one group of operations.
func fewFunctions(s Settings) []declared {
	return slices.DeleteFunc(declaredFunctions(s), func(f declared) bool { return len(f.routes) > 0 && f.name != "variables" })
}

// synthesiseOnce returns the installation of a context with some of its functions, which kind names.
func synthesiseOnce(t *testing.T, context map[string]string, kind string, of func(Settings) []declared) assembly {
	t.Helper()
	synthesised.Lock()
	defer synthesised.Unlock()
	said := fmt.Sprint(kind, context) // fmt sorts maps
	if a, ok := synthesised.of[said]; ok {
		return a
	}
	s := settingsFor(t, context)
	without := s
	without.Assets = ""
	meant := fmt.Sprintf("%s %+v", kind, without)
	a, ok := synthesised.of[meant]
	if !ok {
		a = synthesiseOf(t, s, of(s))
		a.dir = ""
	}
	synthesised.of[said], synthesised.of[meant] = a, a
	return a
}

var synthesised = struct {
	sync.Mutex
	of map[string]assembly // by functions and context, and by functions and settings
}{of: map[string]assembly{}}

// synthesiseOf is synthesise with functions of its own, nil for the product's,
// and an assembly of its own; each may add to the app before. Nothing reads the description of
// the tree that the CDK writes beside the templates, so that it writes none.
func synthesiseOf(t *testing.T, s Settings, fs []declared, each ...func(awscdk.App)) assembly {
	t.Helper()
	if fs == nil {
		fs = declaredFunctions(s)
	}
	return assemble(t, append(each, func(app awscdk.App) { newInstallation(app, s, fs, declaredServices(s)) })...)
}

// assemble returns the assembly of an app to which each has added something.
func assemble(t *testing.T, each ...func(awscdk.App)) assembly {
	t.Helper()
	a := assembly{dir: t.TempDir(), raw: map[string][]byte{}, stacks: map[string]template{}}
	app := awscdk.NewApp(&awscdk.AppProps{
		Outdir: &a.dir, AnalyticsReporting: jsii.Bool(false), TreeMetadata: jsii.Bool(false),
		// As the command line does: it tells which file a nested stack is in.
		Context: &map[string]any{"aws:cdk:enable-asset-metadata": true},
	})
	for _, add := range each {
		add(app)
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
		var one template
		if err := json.Unmarshal(raw, &one); err != nil {
			t.Fatal(err)
		}
		a.raw[filepath.Base(file)], a.stacks[filepath.Base(file)] = raw, one
	}
	a.inline()
	return a
}

// inline puts, in nested stacks, what the parent gives for a parameter in the
// parameter's place, and what another nested stack gives out in the place of
// its output, so that a test reads all stacks as one.
func (a assembly) inline() {
	outputs := map[string]any{} // by the nested stack's id and the output's name
	for range 2 {               // parameters are outputs of stacks that have parameters
		for _, parent := range a.stacks {
			for id, r := range parent.Resources {
				if r.Type != "AWS::CloudFormation::Stack" {
					continue
				}
				file, _ := r.Metadata["aws:asset:path"].(string)
				given, _ := r.Properties["Parameters"].(map[string]any)
				for name, nested := range a.stacks[file].Resources {
					nested.Properties, _ = replace(replace(nested.Properties, given), outputs).(map[string]any)
					a.stacks[file].Resources[name] = nested
				}
				for name, o := range a.stacks[file].Outputs {
					outputs[id+".Outputs."+name] = o.Value
				}
			}
		}
	}
}

// replace gives v with each reference to a parameter, and each attribute that
// is known, replaced.
func replace(v any, given map[string]any) any {
	switch v := v.(type) {
	case map[string]any:
		if name, ok := v["Ref"].(string); ok && len(v) == 1 && given[name] != nil {
			return given[name]
		}
		if of := v["Fn::GetAtt"]; of != nil && len(v) == 1 {
			if known := given[fmt.Sprint(get(of, 0), ".", get(of, 1))]; known != nil {
				return known
			}
		}
		out := make(map[string]any, len(v))
		for name, in := range v {
			out[name] = replace(in, given)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, in := range v {
			out[i] = replace(in, given)
		}
		return out
	}
	return v
}

// find gives a resource by its logical id, from whichever stack has it.
func (a assembly) find(id string) resource {
	for _, s := range a.stacks {
		if r, ok := s.Resources[id]; ok {
			return r
		}
	}
	return resource{}
}

// all gives the resources of a type in all stacks, by their logical ids.
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

// only gives the one resource of a type.
func (a assembly) only(t *testing.T, kind string) resource {
	t.Helper()
	found := a.all(kind)
	if len(found) != 1 {
		t.Fatalf("%d resources are of the type %s, want one", len(found), kind)
	}
	return found[slices.Collect(maps.Keys(found))[0]]
}

// get walks properties by names and indexes; nil where there is nothing.
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

// render writes a value of a template as text, with what CloudFormation will
// fill in by its name: ${Table.Arn}.
func render(v any) string {
	m, ok := v.(map[string]any)
	if !ok || len(m) != 1 {
		if text, ok := v.(string); ok {
			return text
		}
		raw, _ := json.Marshal(v)
		return string(raw)
	}
	for name, in := range m {
		switch name {
		case "Ref":
			return fmt.Sprintf("${%s}", in)
		case "Fn::Sub":
			return render(in)
		case "Fn::GetAtt":
			return fmt.Sprintf("${%s.%s}", get(in, 0), get(in, 1))
		case "Fn::Join":
			var out []string
			parts, _ := get(in, 1).([]any)
			for _, p := range parts {
				out = append(out, render(p))
			}
			return strings.Join(out, render(get(in, 0)))
		}
	}
	raw, _ := json.Marshal(v)
	return string(raw)
}

// texts renders a value that is one or a list.
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
