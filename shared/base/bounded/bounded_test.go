package bounded_test

import (
	"testing"

	"github.com/gatewright/gatewright/shared/base/bounded"
)

func TestMapHasAtMostMaxEntries(t *testing.T) {
	const maxEntries = 4
	m := map[int]string{}
	for key := range 100 {
		bounded.Put(m, key, "first", maxEntries)
		if len(m) != min(key+1, maxEntries) || m[key] != "first" {
			t.Fatalf("map after Put(%d) = %v, want %d entries, the new one among them", key, m, min(key+1, maxEntries))
		}
	}
}

func TestExistingKeyEvictsNothing(t *testing.T) {
	m := map[string]int{"a": 1, "b": 2}
	bounded.Put(m, "a", 3, 2)
	if len(m) != 2 || m["a"] != 3 || m["b"] != 2 {
		t.Errorf("map after Put of an existing key = %v, want map[a:3 b:2]", m)
	}
}
