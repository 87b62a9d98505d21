package functions_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/runtime/durable"
)

// TestEverySealedValueIsRotated checks that a rotation of the root key covers every sealed value. It treats all
// attributes of bytes that operations store as sealed. A value that is not covered would be lost when the old root key
// is deleted, a day after a rotation that seemed successful.
func TestEverySealedValueIsRotated(t *testing.T) {
	p := newPopulatedFixture(t)
	// The certificates of CAs are bytes, but public.
	declared, seen := map[string]bool{"client-ca certificate": true}, map[string]bool{}
	recordPaths := func(items map[store.Key]store.Item) {
		for key, item := range items {
			for name, value := range item {
				for _, attributePath := range bytePaths(name, value) {
					prefix, _, _ := strings.Cut(key.PK, "#")
					seen[prefix+" "+attributePath] = true
				}
			}
		}
	}
	forEachOperation(t, anyOperation, func(t *testing.T, d api.Declaration) {
		for _, r := range variants(p.sampleSet, d) {
			fx, _, _ := p.sendValid(t, d, r)
			recordPaths(fx.Items.Snapshot())
			for _, k := range durable.Rotation(fx.Parts).SealedRecords() {
				for _, attribute := range k.Attributes {
					declared[string(k.Prefix)+" "+attribute] = true
				}
			}
		}
	})
	if len(seen) < 4 {
		t.Errorf("paths with bytes = %v, want 4 or more", seen)
	}
	for path := range seen {
		if !declared[path] {
			t.Errorf("%s has bytes, want it in the SealedRecords of its package", path)
		}
	}
}

// bytePaths returns the paths of byte values in an attribute. It uses reflection, because only package store may import
// the SDK with the types of attributes.
func bytePaths(path string, value any) (paths []string) {
	v := reflect.Indirect(reflect.ValueOf(value))
	if v.Kind() != reflect.Struct || !v.FieldByName("Value").IsValid() {
		return nil
	}
	inner := v.FieldByName("Value")
	if _, ok := inner.Interface().([]byte); ok {
		return []string{path}
	}
	if inner.Kind() == reflect.Map {
		for _, key := range inner.MapKeys() {
			paths = append(paths, bytePaths(path+"."+key.String(), inner.MapIndex(key).Interface())...)
		}
	}
	if inner.Kind() == reflect.Slice {
		for i := range inner.Len() {
			paths = append(paths, bytePaths(path, inner.Index(i).Interface())...)
		}
	}
	slices.Sort(paths)
	return paths
}
