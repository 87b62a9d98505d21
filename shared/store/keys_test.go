package store_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/store"
)

// keyTemplate is a function of keys.go. Its arguments are names (patterns of
// contract 1.4) or, where free says so, any text.
type keyTemplate struct {
	name string // of the function, without its last word Key
	args int
	free string // a digit for each argument that may be any text
	key  func(a []string) store.Key
}

// templates are those of keys.go.
var templates = []keyTemplate{
	{"Bucket", 2, "", func(a []string) store.Key { return store.BucketKey(a[0], a[1]) }},
	{"BucketID", 1, "", func(a []string) store.Key { return store.BucketIDKey(a[0]) }},
	{"Consumer", 4, "", func(a []string) store.Key { return store.ConsumerKey(generation(a), a[3]) }},
	{"ConsumerID", 4, "", func(a []string) store.Key { return store.ConsumerIDKey(generation(a), a[3]) }},
	{"ConsumerIndex", 6, "4", func(a []string) store.Key { return store.ConsumerIndexKey(generation(a), a[3], a[4], a[5]) }},
	{"ConsumerCount", 4, "", func(a []string) store.Key { return store.ConsumerCountKey(generation(a), a[3]) }},
	{"ConsumerKey", 5, "", func(a []string) store.Key { return store.ConsumerKeyKey(generation(a), a[3], a[4]) }},
	{"KeyHash", 1, "", func(a []string) store.Key { return store.KeyHashKey(a[0]) }},
	{"KeyBatch", 1, "", func(a []string) store.Key { return store.KeyBatchKey(a[0]) }},
}

func generation(a []string) store.Generation {
	return store.Generation(strings.Join(a[:3], "/"))
}

// Whatever names come from outside: no record lies where another one does.
func TestKeysOfDifferentRecordsNeverMeet(t *testing.T) {
	name := rapid.StringMatching(`[a-z0-9_-]{1,4}`)
	text := rapid.OneOf(rapid.StringMatching(`[a#%./ 2-3]{1,5}`), rapid.String().Filter(func(s string) bool { return s != "" }))
	type record struct {
		template int
		args     string
	}
	draw := func(t *rapid.T) (record, store.Key) {
		i := rapid.IntRange(0, len(templates)-1).Draw(t, "template")
		args := make([]string, templates[i].args)
		for n := range args {
			if strings.Contains(templates[i].free, string(rune('0'+n))) {
				args[n] = text.Draw(t, "text")
			} else {
				args[n] = name.Draw(t, "name")
			}
		}
		return record{i, strings.Join(args, "\x00\x00")}, templates[i].key(args)
	}
	rapid.Check(t, func(t *rapid.T) {
		keys := map[store.Key]record{}
		for range 50 {
			r, k := draw(t)
			if other, ok := keys[k]; ok && other != r {
				t.Fatalf("%s %q and %s %q share the key %v", templates[r.template].name, r.args, templates[other.template].name, other.args, k)
			}
			keys[k] = r
			if k.PK == "" || k.SK == "" {
				t.Fatalf("%s %q has the key %v", templates[r.template].name, r.args, k)
			}
		}
	})
}

func TestPartitionsHoldTheKeysOfTheirRecords(t *testing.T) {
	g := store.Generation("a/b/1")
	for _, test := range []struct {
		partition string
		key       store.Key
	}{
		{store.BucketPartition("a"), store.BucketKey("a", "b")},
		{store.ConsumerPartition(g), store.ConsumerKey(g, "c")},
		{store.ConsumerIndexPartition(g, "tag", "k=v#"), store.ConsumerIndexKey(g, "tag", "k=v#", "c")},
		{store.ConsumerCountPartition(g), store.ConsumerCountKey(g, "1")},
		{store.ConsumerKeyPartition(g, "c"), store.ConsumerKeyKey(g, "c", "k")},
	} {
		if test.key.PK != test.partition {
			t.Errorf("the partition %q does not hold %v", test.partition, test.key)
		}
	}
}

// A template that the tests above do not know proves nothing about itself.
func TestEveryKeyTemplateIsInTheTable(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "keys.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !f.Name.IsExported() {
			continue
		}
		template, ok := strings.CutSuffix(f.Name.Name, "Key")
		if ok && !slices.ContainsFunc(templates, func(known keyTemplate) bool { return known.name == template }) {
			t.Errorf("add %s to the templates at the top of keys_test.go", f.Name.Name)
		}
	}
}
