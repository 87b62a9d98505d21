package functions_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/durable"
	"github.com/gatewright/gatewright/shared/store"
)

// TestAllThatIsSealedIsRenewed: a value that nobody has declared would be lost when the old root key is retired, a
// day after a rotation that looked well. What the table has as bytes, after any operation, is sealed.
func TestAllThatIsSealedIsRenewed(t *testing.T) {
	p := newPopulated(t)
	// What is public is bytes too: the certificates of CAs.
	declared, seen := map[string]bool{"client-ca certificate": true}, map[string]bool{}
	note := func(items map[store.Key]store.Item) {
		for key, item := range items {
			for name, value := range item {
				for _, path := range bytesIn(name, value) {
					space, _, _ := strings.Cut(key.PK, "#")
					seen[space+" "+path] = true
				}
			}
		}
	}
	each(t, every, func(t *testing.T, d api.Declaration) {
		for _, r := range variants(p.book, d) {
			w, _, _ := p.good(t, d, r)
			note(w.Items.Snapshot())
			for _, k := range durable.Rotation(w.Parts).Kept() {
				for _, attribute := range k.Attributes {
					declared[string(k.Space)+" "+attribute] = true
				}
			}
		}
	})
	if len(seen) < 4 {
		t.Errorf("only %v was seen, which tests nothing", seen)
	}
	for what := range seen {
		if !declared[what] {
			t.Errorf("%s is bytes, and no package declares it to a rotation of the root key (rotation.Kept)", what)
		}
	}
}

// bytesIn are the paths of bytes in an attribute. Its kinds are known by their forms: the SDK that has their types stays
// in store.
func bytesIn(path string, value any) (paths []string) {
	v := reflect.Indirect(reflect.ValueOf(value))
	if v.Kind() != reflect.Struct || !v.FieldByName("Value").IsValid() {
		return nil
	}
	its := v.FieldByName("Value")
	if _, ok := its.Interface().([]byte); ok {
		return []string{path}
	}
	if its.Kind() == reflect.Map {
		for _, key := range its.MapKeys() {
			paths = append(paths, bytesIn(path+"."+key.String(), its.MapIndex(key).Interface())...)
		}
	}
	if its.Kind() == reflect.Slice {
		for i := range its.Len() {
			paths = append(paths, bytesIn(path, its.Index(i).Interface())...)
		}
	}
	slices.Sort(paths)
	return paths
}
