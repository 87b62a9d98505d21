package functions_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// laterAttribute is an attribute that a newer release has added to every record, and to every structure in a record.
const laterAttribute = "laterRelease"

// storedTypes has the types of stored data that parseStoredTypes finds in the source code. structs are the structs with
// attributes. A type in both stringTypes and constantTypes is an enum. attributes has the types of the attributes with
// a name.
type storedTypes struct {
	structs, stringTypes, constantTypes map[string]bool
	attributes                          map[string][]ast.Expr
}

// isEnum reports whether the values of an attribute are of an enum type, or lists of one.
func (s storedTypes) isEnum(attribute string) bool {
	return slices.ContainsFunc(s.attributes[attribute], func(e ast.Expr) bool {
		return s.stringTypes[elementOf(e)] && s.constantTypes[elementOf(e)]
	})
}

// parseStoredTypes reads the stored types from the source code in the folder shared.
func parseStoredTypes(t *testing.T) storedTypes {
	t.Helper()
	out := storedTypes{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string][]ast.Expr{}}
	root := os.DirFS("../shared")
	err := fs.WalkDir(root, ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") ||
			strings.Contains(name, "testdata") {
			return err
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for n := range ast.Preorder(file) {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if err := out.add(n); err != nil {
					return err
				}
			case *ast.GenDecl:
				for _, spec := range n.Specs {
					if valueSpec, ok := spec.(*ast.ValueSpec); ok && n.Tok == token.CONST && valueSpec.Type != nil {
						out.constantTypes[elementOf(valueSpec.Type)] = true
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// add adds a type from the source code, with its attributes.
func (s storedTypes) add(spec *ast.TypeSpec) error {
	if ident, ok := spec.Type.(*ast.Ident); ok && ident.Name == "string" {
		s.stringTypes[spec.Name.Name] = true
	}
	structType, ok := spec.Type.(*ast.StructType)
	if !ok {
		return nil
	}
	for _, f := range structType.Fields.List {
		if f.Tag == nil {
			continue
		}
		tag, err := strconv.Unquote(f.Tag.Value)
		if err != nil {
			return err
		}
		name, _, _ := strings.Cut(reflect.StructTag(tag).Get("dynamodbav"), ",")
		if name == "" || name == "-" {
			continue
		}
		s.structs[spec.Name.Name] = true
		s.attributes[name] = append(s.attributes[name], f.Type)
	}
	return nil
}

// structAttributes returns the names of attributes whose values are structs, or lists of structs. In attributes with
// maps, such as tags, the names are data. It omits a name that is used for both.
func structAttributes(t *testing.T) map[string]bool {
	t.Helper()
	types := parseStoredTypes(t)
	out := map[string]bool{}
	for name, attributeTypes := range types.attributes {
		if !slices.ContainsFunc(attributeTypes, func(e ast.Expr) bool { return !types.structs[elementOf(e)] }) {
			out[name] = true
		}
	}
	if !out["served"] || !out["history"] || out["tags"] {
		t.Fatalf("attributes with structs = %v, want served and history, and not tags", out)
	}
	return out
}

// elementOf returns the name of a type, or of its element type if it is a list or a pointer.
func elementOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.StarExpr:
		return elementOf(e.X)
	case *ast.ArrayType:
		return elementOf(e.Elt)
	}
	return "" // the names in a map are data
}

// addLaterAttributes adds laterAttribute to all records of a fixture's table, except those in marked, which already
// have it. It returns the new contents of the table.
func addLaterAttributes(t *testing.T, fx *functionstest.Fixture, isStruct func(string) bool, marked table) table {
	t.Helper()
	modified, n := fx.Items.Clone(), 0
	for key, item := range fx.Items.Snapshot() {
		if reflect.DeepEqual(marked[key], item) {
			continue
		}
		item = store.Clone(item)
		storetest.Parts(item, isStruct, func(_ string, part store.Item) {
			n++
			part[laterAttribute] = storetest.Text(fmt.Sprint(n))
		})
		// The store refuses a Put without a new version, so delete the record first.
		for _, write := range []store.Write{{Kind: store.DeleteKind, Key: key}, {Kind: store.PutKind, Key: key, Item: item}} {
			token := fmt.Sprintf("newer %d %s %s %s", write.Kind, fx.Now, key.PK, key.SK)
			if err := modified.Transact(t.Context(), token, []store.Write{write}); err != nil {
				t.Fatal(err)
			}
		}
	}
	fx.Items.Restore(modified)
	fx.Restart()
	return modified.Snapshot()
}

// lostAttributes returns the places at which laterAttribute was lost: in the item itself, or in a struct in it. A
// struct may have moved within the item: it is recognized by its mostly unchanged attributes.
func lostAttributes(before, after store.Item, isStruct func(string) bool) (out []string) {
	if before["id"] != nil && !reflect.DeepEqual(before["id"], after["id"]) {
		return nil // another object with the same name
	}
	earlierParts := map[string][]store.Item{}
	storetest.Parts(before, isStruct, func(location string, part store.Item) {
		earlierParts[location] = append(earlierParts[location], part)
	})
	storetest.Parts(after, isStruct, func(location string, part store.Item) {
		if part[laterAttribute] == nil && slices.ContainsFunc(earlierParts[location], func(previous store.Item) bool {
			return location == "" || mostlyEqual(previous, part)
		}) {
			out = append(out, location)
		}
	})
	return out
}

// mostlyEqual reports whether most attributes of a struct are unchanged.
func mostlyEqual(before, after store.Item) bool {
	equal := 0
	for name, v := range after {
		if reflect.DeepEqual(before[name], v) {
			equal++
		}
	}
	return 2*equal > len(after)
}

// TestChangesKeepUnknownAttributes checks that every operation, and the durable operations that it begins, keep unknown
// attributes in the records that they change. Records of a newer release can have such attributes during an update and
// after a rollback.
func TestChangesKeepUnknownAttributes(t *testing.T) {
	p := newPopulatedFixture(t)
	structs := structAttributes(t)
	isStruct := func(name string) bool { return structs[name] }
	addLaterAttributes(t, p.Fixture, isStruct, nil)
	changedKinds := map[string]bool{}
	forEachOperation(t, mutates, func(t *testing.T, d api.Declaration) {
		for _, r := range variants(p.sampleSet, d) {
			fx, _, _ := p.sendValid(t, d, r)
			runOperations(t, fx)
			before := p.Items.Snapshot()
			for key, after := range fx.Items.Snapshot() {
				if before[key] == nil || reflect.DeepEqual(before[key], after) {
					continue
				}
				kind, _, _ := strings.Cut(key.PK, "#")
				changedKinds[kind] = true
				for _, location := range lostAttributes(before[key], after, isStruct) {
					t.Errorf("%s %s lost the unknown attribute %s, want it kept: copy store.UnknownAttributes to the new record",
						key.PK, key.SK, location)
				}
			}
		}
	})
	if onlyGroup(t) == "" && len(changedKinds) < 20 {
		t.Errorf("kinds of changed records = %v, want 20 or more", changedKinds)
	}
}

// TestTwoReleasesShareATable simulates two releases that use the same table for some hours. This release runs
// operations, with the durable operations that they begin, in a random order. Before each operation, a newer release
// adds attributes to every record. No record that an operation changes may lose them.
func TestTwoReleasesShareATable(t *testing.T) {
	skipIfSingleGroup(t)
	p := newPopulatedFixture(t)
	structs := structAttributes(t)
	isStruct := func(name string) bool { return structs[name] }
	var changes []change
	for _, g := range groups() {
		for _, d := range g.Declarations() {
			if d.Mutates() {
				for _, r := range variants(p.sampleSet, d) {
					changes = append(changes, change{d, r})
				}
			}
		}
	}
	changed, runs, steps := 0, simulations.Runs(7), 250
	if simulations.RaceEnabled { // the test has no concurrency
		runs, steps = 1, 60
	}
	for seed := range runs {
		synctest.Test(t, func(t *testing.T) {
			fx, random := p.Copy(t), rand.New(rand.NewPCG(uint64(seed), 59))
			var before table
			for range steps {
				fx.Now = fx.Now.Add(time.Second) // so that each audit record has its own time
				before = addLaterAttributes(t, fx, isStruct, before)
				c := changes[random.IntN(len(changes))]
				if c.Method == http.MethodDelete && random.IntN(8) > 0 {
					continue // after most objects were deleted, few changes are possible
				}
				path, body := requestTarget(t, c.Declaration, c.Request, p.values)
				if resp := fx.Call(p.key, c.Method, path, body); resp.Status >= http.StatusInternalServerError {
					t.Errorf("seed %d: %s = %d %s, want a status below 500", seed, c.ID, resp.Status, resp.Body)
				}
				if random.IntN(4) == 0 {
					runOperations(t, fx)
				}
				for key, after := range fx.Items.Snapshot() {
					if before[key] == nil || reflect.DeepEqual(before[key], after) {
						continue
					}
					changed++
					for _, location := range lostAttributes(before[key], after, isStruct) {
						t.Errorf("seed %d: %s: %s %s lost the unknown attribute %q, want it kept",
							seed, c.ID, key.PK, key.SK, location)
					}
				}
			}
		})
	}
	if t.Logf("%d records were changed", changed); changed < steps {
		t.Errorf("changed records = %d, want %d or more", changed, steps)
	}
}
