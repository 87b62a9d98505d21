package files_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/files"
	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/management/apitools"
	"github.com/gatewright/gatewright/shared/testing/golden"
)

// TestEachAPIKindIsSupportedOrExplained checks that each group of operations that list and create objects is a kind of
// files, or has a reason in Unsupported.
func TestEachAPIKindIsSupportedOrExplained(t *testing.T) {
	t.Parallel()
	tools, err := apitools.Load()
	if err != nil {
		t.Fatal(err)
	}
	type verbs struct{ lists, creates bool }
	groups := map[string]*verbs{}
	for _, o := range tools {
		group, verb, _ := strings.Cut(o.Name, "_")
		if groups[group] == nil {
			groups[group] = &verbs{}
		}
		v := groups[group]
		v.lists = v.lists || strings.EqualFold(verb, "list")
		v.creates = v.creates || verb == "create" || o.Method == http.MethodPut
	}
	used := map[string]bool{}
	walkKinds(files.Kinds(), func(_ []*files.Kind, k *files.Kind) {
		for _, operation := range []string{k.List, k.Create, k.Update, k.Delete} {
			group, _, _ := strings.Cut(operation, "_")
			used[group] = true
		}
	})
	unsupported := files.Unsupported()
	for group, v := range groups {
		switch {
		case used[group] && unsupported[group] != "":
			t.Errorf("%s is a kind of files and has a reason in Unsupported, want one of them", group)
		case v.lists && v.creates && !used[group] && unsupported[group] == "":
			t.Errorf("%s lists and creates objects and is no kind of files, want it in Kinds or a reason in Unsupported", group)
		}
	}
	for name := range unsupported {
		group, _, isOperation := strings.Cut(name, "_")
		if groups[group] == nil {
			t.Errorf("Unsupported has a reason for %s, want only groups and operations that exist", name)
		}
		if isOperation {
			if _, err := call.Operation(name); err != nil {
				t.Errorf("Unsupported has a reason for %s: Operation() error = %v, want none", name, err)
			}
		}
	}
}

// TestKindsMatchAPIDeclaration checks that the operations of a kind exist, with the expected methods and arguments.
func TestKindsMatchAPIDeclaration(t *testing.T) {
	t.Parallel()
	declared := map[string]api.Declaration{}
	for _, g := range functions.Groups() {
		for _, d := range g.Declarations() {
			declared[d.ID] = d
		}
	}
	walkKinds(files.Kinds(), func(ancestors []*files.Kind, k *files.Kind) {
		methods := map[string][]string{
			k.List: {http.MethodGet}, k.Read: {http.MethodGet}, k.Create: {http.MethodPost},
			k.Update: {http.MethodPatch}, k.Delete: {http.MethodDelete}, k.StatusOperation: {http.MethodGet},
		}
		if k.SeparateField != nil {
			methods[k.SeparateField.Read], methods[k.SeparateField.Write] = []string{http.MethodGet}, []string{http.MethodPut}
		}
		for _, operation := range k.Dependents {
			methods[operation] = []string{http.MethodGet}
		}
		for operation, allowed := range methods {
			if operation == "" {
				continue
			}
			o, err := call.Operation(operation)
			if err != nil {
				t.Errorf("%s: Operation(%s) error = %v, want none", k.Member, operation, err)
				continue
			}
			if !slices.Contains(allowed, o.Method) {
				t.Errorf("%s calls %s with the method %s, want one of %v", k.Member, operation, o.Method, allowed)
			}
			if takesArgument(o, "ifMatch") != (o.Method != http.MethodGet && o.Method != http.MethodPost) {
				t.Errorf("%s: %s with the method %s takes ifMatch %t, want %t",
					k.Member, operation, o.Method, takesArgument(o, "ifMatch"), !takesArgument(o, "ifMatch"))
			}
			if o.Method != http.MethodGet && o.Method != http.MethodDelete && !takesArgument(o, "idempotencyKey") {
				t.Errorf("%s: %s takes no idempotencyKey, want one, so that it can be repeated", k.Member, operation)
			}
			pathParameters := []string{call.AccountArgument, "operationId", k.PathParameter}
			for _, ancestor := range ancestors {
				pathParameters = append(pathParameters, ancestor.PathParameter)
			}
			for _, a := range o.Arguments {
				if a.Location == "path" && !slices.Contains(pathParameters, a.Name) {
					t.Errorf("%s: %s has the path parameter %s, want one of %v", k.Member, operation, a.Name, pathParameters)
				}
			}
		}
		// The ETag for a change must be that of the kind's own Read operation.
		for _, operation := range []string{k.Update, k.Delete} {
			if operation == "" {
				continue
			}
			d, read := declared[operation], declared[k.Read]
			if !read.Single {
				t.Errorf("%s: Single of the operation %q = false, want true", k.Member, k.Read)
			}
			if d.ReadPath != read.Path {
				t.Errorf("%s: %s has the read path %s, want %s", k.Member, operation, d.ReadPath, read.Path)
			}
		}
	})
}

// TestFieldsMatchGolden compares the fields of files with a golden file, so that reviews see each change.
func TestFieldsMatchGolden(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	walkKinds(files.Kinds(), func(ancestors []*files.Kind, k *files.Kind) {
		fields, err := files.FieldsOf(k)
		if err != nil {
			t.Fatal(err)
		}
		for _, ancestor := range ancestors {
			b.WriteString(ancestor.Member + ".")
		}
		fmt.Fprintf(&b, "%s, by %s\n", k.Member, k.Key)
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			f := fields[name]
			var notes []string
			for note, set := range map[string]bool{
				"needed": f.Required, "secret": f.Secret, "a time": f.Time,
				"never changes": !f.OnUpdate,
			} {
				if set {
					notes = append(notes, note)
				}
			}
			slices.Sort(notes)
			fmt.Fprintf(&b, "  %s: %s\n", name, strings.Join(notes, ", "))
		}
	})
	golden.Equal(t, "testdata/fields.txt", b.String())
}
