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
	"github.com/gatewright/gatewright/internal/golden"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/apitools"
)

// TestKindOfTheAPIIsInFilesOrSaysWhyNot: what is listed, made and deleted by operations of one group is a kind of files.
func TestKindOfTheAPIIsInFilesOrSaysWhyNot(t *testing.T) {
	t.Parallel()
	tools, err := apitools.Load()
	if err != nil {
		t.Fatal(err)
	}
	type verbs struct{ lists, makes, deletes bool }
	groups := map[string]*verbs{}
	for _, o := range tools {
		group, verb, _ := strings.Cut(o.Name, "_")
		if groups[group] == nil {
			groups[group] = &verbs{}
		}
		v := groups[group]
		v.lists = v.lists || strings.EqualFold(verb, "list")
		v.makes = v.makes || verb == "create" || o.Method == http.MethodPut
		v.deletes = v.deletes || o.Method == http.MethodDelete
	}
	used := map[string]bool{}
	every(files.Kinds(), func(_ []*files.Kind, k *files.Kind) {
		for _, operation := range []string{k.List, k.Create, k.Update, k.Delete} {
			group, _, _ := strings.Cut(operation, "_")
			used[group] = true
		}
	})
	left := files.Left()
	for group, v := range groups {
		switch {
		case used[group] && left[group] != "":
			t.Errorf("%s is a kind of files, and has a reason not to be", group)
		case v.lists && v.makes && !used[group] && left[group] == "":
			t.Errorf("%s lists and makes, and is no kind of files: add it to Kinds, or a reason to Left", group)
		}
	}
	for name := range left {
		group, _, operation := strings.Cut(name, "_")
		if groups[group] == nil {
			t.Errorf("%s has a reason, and is not there", name)
		}
		if operation {
			if _, err := call.Operation(name); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestKindsAskWhatTheAPIDeclares: the operations of a kind are there, do what they are for, and take what files name by.
func TestKindsAskWhatTheAPIDeclares(t *testing.T) {
	t.Parallel()
	declared := map[string]api.Declaration{}
	for _, g := range functions.Groups() {
		for _, d := range g.Declarations() {
			declared[d.ID] = d
		}
	}
	every(files.Kinds(), func(above []*files.Kind, k *files.Kind) {
		methods := map[string][]string{k.List: {http.MethodGet}, k.Read: {http.MethodGet}, k.Create: {http.MethodPost}, k.Update: {http.MethodPatch}, k.Delete: {http.MethodDelete}, k.Awaits: {http.MethodGet}}
		if k.Apart != nil {
			methods[k.Apart.Read], methods[k.Apart.Write] = []string{http.MethodGet}, []string{http.MethodPut}
		}
		for _, operation := range k.Counted {
			methods[operation] = []string{http.MethodGet}
		}
		for operation, method := range methods {
			if operation == "" {
				continue
			}
			o, err := call.Operation(operation)
			if err != nil {
				t.Errorf("%s: %v", k.Member, err)
				continue
			}
			if !slices.Contains(method, o.Method) {
				t.Errorf("%s asks %s, which is a %s", k.Member, operation, o.Method)
			}
			if takesArgument(o, "ifMatch") != (o.Method != http.MethodGet && o.Method != http.MethodPost) {
				t.Errorf("%s changes by %s, which takes no condition", k.Member, operation)
			}
			if o.Method != http.MethodGet && o.Method != http.MethodDelete && !takesArgument(o, "idempotencyKey") {
				t.Errorf("%s changes by %s, which is not safe to send again", k.Member, operation)
			}
			for _, a := range o.Arguments {
				known := a.Name == call.AccountArgument || a.Name == "operationId" || a.Name == k.Argument || a.Place != "path"
				for _, of := range above {
					known = known || a.Name == of.Argument
				}
				if !known {
					t.Errorf("%s asks %s, which needs %s", k.Member, operation, a.Name)
				}
			}
		}
		// What is changed has an ETag, which its own read tells.
		for _, operation := range []string{k.Update, k.Delete} {
			if operation == "" {
				continue
			}
			d := declared[operation]
			if read := declared[k.Read]; !read.Single || d.ReadAt != read.Path {
				t.Errorf("%s: %s is about what is read at %s, and files read %s", k.Member, operation, d.ReadAt, read.Path)
			}
		}
	})
}

// TestFieldsAreThoseOfTheOperations shows a review what files may have.
func TestFieldsAreThoseOfTheOperations(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	every(files.Kinds(), func(above []*files.Kind, k *files.Kind) {
		fields, err := files.FieldsOf(k)
		if err != nil {
			t.Fatal(err)
		}
		for _, of := range above {
			b.WriteString(of.Member + ".")
		}
		fmt.Fprintf(&b, "%s, by %s\n", k.Member, k.Key)
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			f := fields[name]
			var notes []string
			for note, is := range map[string]bool{"needed": f.Needed, "secret": f.Secret, "a time": f.Time, "never changes": !f.Changed} {
				if is {
					notes = append(notes, note)
				}
			}
			slices.Sort(notes)
			fmt.Fprintf(&b, "  %s: %s\n", name, strings.Join(notes, ", "))
		}
	})
	golden.Equal(t, "testdata/fields.txt", b.String())
}
