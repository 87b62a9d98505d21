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
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// later is an attribute that a newer release has put into every record, and into
// whatever stands within one.
const later = "laterRelease"

// stored are the types in the sources of what is stored, as far as the tests want them: structs
// with attributes, words (types of text that there are constants of), and the types of each attribute, by its name.
type stored struct {
	structs, texts, constants map[string]bool
	attributes                map[string][]ast.Expr
}

// word reports whether an attribute's value is a word, or a list of them.
func (s stored) word(attribute string) bool {
	return slices.ContainsFunc(s.attributes[attribute], func(e ast.Expr) bool { return s.texts[elementOf(e)] && s.constants[elementOf(e)] })
}

// whatIsStored reads the sources.
func whatIsStored(t *testing.T) stored {
	t.Helper()
	out := stored{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string][]ast.Expr{}}
	root := os.DirFS("../shared")
	err := fs.WalkDir(root, ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.Contains(name, "testdata") {
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
					if of, ok := spec.(*ast.ValueSpec); ok && n.Tok == token.CONST && of.Type != nil {
						out.constants[elementOf(of.Type)] = true
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

func (s stored) add(spec *ast.TypeSpec) error {
	if of, ok := spec.Type.(*ast.Ident); ok && of.Name == "string" {
		s.texts[spec.Name.Name] = true
	}
	its, ok := spec.Type.(*ast.StructType)
	if !ok {
		return nil
	}
	for _, f := range its.Fields.List {
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

// structured finds the attributes whose values are structs, lists of them or maps of
// them, by their names: in those of others, such as tags, the names are
// data. One that is both is left out.
func structured(t *testing.T) map[string]bool {
	t.Helper()
	in := whatIsStored(t)
	out := map[string]bool{}
	for name, all := range in.attributes {
		if !slices.ContainsFunc(all, func(e ast.Expr) bool { return !in.structs[elementOf(e)] }) {
			out[name] = true
		}
	}
	if !out["served"] || !out["history"] || out["tags"] {
		t.Fatalf("the attributes with structs are %v", out)
	}
	return out
}

// elementOf is the name of the type that a type is of.
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
	return "" // the entries of a map have names that are data, and stand for themselves
}

// newerRecords puts the attribute into all records of a world's table but those of marked, which have it already, and
// returns what the table has then.
func newerRecords(t *testing.T, w *functionstest.World, inside func(string) bool, marked table) table {
	t.Helper()
	next, n := w.Items.Clone(), 0
	for key, item := range w.Items.Snapshot() {
		if reflect.DeepEqual(marked[key], item) {
			continue
		}
		item = store.Clone(item)
		storetest.Parts(item, inside, func(_ string, part store.Item) {
			n++
			part[later] = storetest.Text(fmt.Sprint(n))
		})
		// A write that keeps the version of a record is refused, and a newer release's may be any.
		for _, write := range []store.Write{{Kind: store.DeleteKind, Key: key}, {Kind: store.PutKind, Key: key, Item: item}} {
			token := fmt.Sprintf("newer %d %s %s %s", write.Kind, w.Now, key.PK, key.SK)
			if err := next.Transact(t.Context(), token, []store.Write{write}); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.Items.Restore(next)
	w.Restart()
	return next.Snapshot()
}

// lost tells what of the marks of an item is gone that it should have: its own, and
// that of each struct most of whose attributes are as they were before, wherever it stands now.
func lost(before, after store.Item, inside func(string) bool) (out []string) {
	if before["id"] != nil && !reflect.DeepEqual(before["id"], after["id"]) {
		return nil // another thing of the name
	}
	was := map[string][]store.Item{}
	storetest.Parts(before, inside, func(at string, part store.Item) { was[at] = append(was[at], part) })
	storetest.Parts(after, inside, func(at string, part store.Item) {
		if part[later] == nil && slices.ContainsFunc(was[at], func(earlier store.Item) bool { return at == "" || alike(earlier, part) }) {
			out = append(out, at)
		}
	})
	return out
}

// alike reports whether most of what a part has is as it was.
func alike(before, after store.Item) bool {
	same := 0
	for name, v := range after {
		if reflect.DeepEqual(before[name], v) {
			same++
		}
	}
	return 2*same > len(after)
}

// TestEveryChangeKeepsWhatANewerReleaseHasPutThere: for the minutes of an update, and
// after a rollback, this release changes what a newer one has written, with attributes
// that it has never heard of, in every record that any operation changes, and in what
// the operations do that it begins.
func TestEveryChangeKeepsWhatANewerReleaseHasPutThere(t *testing.T) {
	p := newPopulated(t)
	structs := structured(t)
	inside := func(name string) bool { return structs[name] }
	newerRecords(t, p.World, inside, nil)
	changed := map[string]bool{}
	each(t, changing, func(t *testing.T, d api.Declaration) {
		for _, r := range variants(p.book, d) {
			w, _, _ := p.good(t, d, r)
			goOn(t, w)
			before := p.Items.Snapshot()
			for key, after := range w.Items.Snapshot() {
				if before[key] == nil || reflect.DeepEqual(before[key], after) {
					continue
				}
				kind, _, _ := strings.Cut(key.PK, "#")
				changed[kind] = true
				for _, at := range lost(before[key], after, inside) {
					t.Errorf("%s %s has lost what a newer release has put to %s: give store.Rest on where the record is made anew", key.PK, key.SK, at)
				}
			}
		}
	})
	if only(t) == "" && len(changed) < 20 {
		t.Errorf("changes of %d kinds of records were seen: %v", len(changed), changed)
	}
}

// TestTwoReleasesChangeOneTable plays what comes of some hours side by side: this release carries out operations in any
// order, one after the other and with what they begin, and a newer one adds to every record after each.
func TestTwoReleasesChangeOneTable(t *testing.T) {
	together(t)
	p := newPopulated(t)
	structs := structured(t)
	inside := func(name string) bool { return structs[name] }
	var all []change
	for _, g := range groups() {
		for _, d := range g.Declarations() {
			if d.Mutates() {
				for _, r := range variants(p.book, d) {
					all = append(all, change{d, r})
				}
			}
		}
	}
	made, runs, steps := 0, simulations.Runs(7), 250
	if simulations.Racing { // one thing happens at a time
		runs, steps = 1, 60
	}
	for seed := range runs {
		synctest.Test(t, func(t *testing.T) {
			w, random := p.Copy(t), rand.New(rand.NewPCG(uint64(seed), 59))
			var before table
			for range steps {
				w.Now = w.Now.Add(time.Second) // each audit record has a time of its own
				before = newerRecords(t, w, inside, before)
				c := all[random.IntN(len(all))]
				if c.Method == http.MethodDelete && random.IntN(8) > 0 {
					continue // little is changed where most is gone
				}
				path, body := target(t, c.Declaration, c.Request, p.names)
				if a := w.Call(p.key, c.Method, path, body); a.Status >= http.StatusInternalServerError {
					t.Errorf("seed %d: %s is answered %d %s", seed, c.ID, a.Status, a.Body)
				}
				if random.IntN(4) == 0 {
					goOn(t, w)
				}
				for key, after := range w.Items.Snapshot() {
					if before[key] == nil || reflect.DeepEqual(before[key], after) {
						continue
					}
					made++
					for _, at := range lost(before[key], after, inside) {
						t.Errorf("seed %d: %s: %s %s has lost what a newer release has put to %q", seed, c.ID, key.PK, key.SK, at)
					}
				}
			}
		})
	}
	if t.Logf("%d records were changed", made); made < steps {
		t.Errorf("only %d records were changed", made)
	}
}
