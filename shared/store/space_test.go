package store_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/store"
)

// TestKeysOfDifferentPartsNeverMeet: whatever texts come from outside, no
// record lies where another one does.
func TestKeysOfDifferentPartsNeverMeet(t *testing.T) {
	part := rapid.OneOf(rapid.StringMatching(`[a#%./ 2-3]{0,5}`), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		drawn := map[store.Key]string{}
		for range 50 {
			space := store.Space(rapid.StringMatching(`[ab-]{1,2}`).Draw(t, "space"))
			in := rapid.SliceOfN(part, 0, 3).Draw(t, "partition")
			sort := rapid.SliceOfN(part, 1, 3).Draw(t, "sort")
			key, what := store.In(space.Partition(in...), sort...), "in"
			if rapid.Bool().Draw(t, "alone") {
				key, what, sort = space.Key(in...), "alone", nil
			}
			spelled := strings.Join([]string{what, string(space), strings.Join(in, "\x00\x00"), strings.Join(sort, "\x00\x00")}, "\x00\x00\x00")
			if other, ok := drawn[key]; ok && other != spelled && key.SK != "." {
				t.Fatalf("%q and %q share the key %v", spelled, other, key)
			}
			drawn[key] = spelled
		}
	})
}

func TestPartOfReadsKeysOfItsSpaceAlone(t *testing.T) {
	const space, other store.Space = "operation", "operations"
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.String().Draw(t, "part")
		if got, ok := space.PartOf(space.Key(want)); !ok || got != want {
			t.Fatalf("%q, %v, want %q", got, ok, want)
		}
	})
	for _, k := range []store.Key{other.Key("a"), space.Key("a", "b"), space.Key(), store.In(space.Partition("a"), "b"), {}} {
		if part, ok := space.PartOf(k); ok {
			t.Errorf("%v is the key of %q", k, part)
		}
	}
}

func TestPartsOfGivesWhatAPartitionWasMadeOf(t *testing.T) {
	const space, other store.Space = "audit", "audit-new"
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.String(), 1, 3).Draw(t, "parts")
		if got := space.PartsOf(space.Partition(want...)); !slices.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
	})
	if got := space.PartsOf(other.Partition("a")); got != nil {
		t.Errorf("of another space it gives %q", got)
	}
}

// TestPatternsOfASpaceTakeNoOther: IAM takes "*" for any text, and a role is held to partitions by them.
func TestPatternsOfASpaceTakeNoOther(t *testing.T) {
	matches := func(patterns []string, partition string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool {
			prefix, many := strings.CutSuffix(p, "*")
			return p == partition || many && strings.HasPrefix(partition, prefix)
		})
	}
	patterns := store.Space("account").Leading()
	for partition, want := range map[string]bool{
		store.Space("account").Partition():                true,
		store.Space("account").Partition("a"):             true,
		store.Space("account").Partition("a#b", "*"):      true,
		store.Space("account-keys").Partition("a"):        false,
		store.Space("account-keys").Partition():           false,
		store.Space("accounts").Partition("account", "a"): false,
		store.Space("other").Partition("account"):         false,
		"": false,
	} {
		if matches(patterns, partition) != want {
			t.Errorf("%q takes %q: %v", patterns, partition, !want)
		}
		if of := store.SpaceOf(partition); (of == "account") != want {
			t.Errorf("%q is of the space %q", partition, of)
		}
	}
}
