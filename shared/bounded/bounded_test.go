package bounded_test

import (
	"testing"

	"github.com/gatewright/gatewright/shared/bounded"
)

func TestMapStaysBelowItsSize(t *testing.T) {
	const most = 4
	m := map[int]string{}
	for key := range 100 {
		bounded.Put(m, key, "first", most)
		if len(m) != min(key+1, most) || m[key] != "first" {
			t.Fatalf("after %d there are %v", key, m)
		}
	}
}

func TestKnownKeyPushesNothingOut(t *testing.T) {
	m := map[string]int{"a": 1, "b": 2}
	bounded.Put(m, "a", 3, 2)
	if len(m) != 2 || m["a"] != 3 || m["b"] != 2 {
		t.Errorf("there are %v", m)
	}
}
