package store_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/core/store"
)

// TestKeysOfDifferentPartsDiffer checks that two records never have the same key, no matter which
// texts from clients are parts of their keys. The only exception is a record that is created with
// KeyIn and the sort key ".": it has the key of the record that is alone in this partition.
func TestKeysOfDifferentPartsDiffer(t *testing.T) {
	part := rapid.OneOf(rapid.StringMatching(`[a#%./ 2-3]{0,5}`), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		drawn := map[store.Key]string{}
		for range 50 {
			prefix := store.KeyPrefix(rapid.StringMatching(`[ab-]{1,2}`).Draw(t, "prefix"))
			parts := rapid.SliceOfN(part, 0, 3).Draw(t, "parts of the partition key")
			sort := rapid.SliceOfN(part, 1, 3).Draw(t, "parts of the sort key")
			key, kind := store.KeyIn(prefix.Partition(parts...), sort...), "in"
			if rapid.Bool().Draw(t, "alone in its partition") {
				key, kind, sort = prefix.Key(parts...), "alone", nil
			}
			description := strings.Join([]string{
				kind, string(prefix), strings.Join(parts, "\x00\x00"),
				strings.Join(sort, "\x00\x00"),
			}, "\x00\x00\x00")
			if other, ok := drawn[key]; ok && other != description &&
				(key.SK != "." || strings.HasPrefix(other, kind+"\x00")) {
				t.Fatalf("%q and %q have the key %v, want different keys", description, other, key)
			}
			drawn[key] = description
		}
	})
}

func TestSinglePartMatchesItsPrefix(t *testing.T) {
	const prefix, other store.KeyPrefix = "operation", "operations"
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.String().Draw(t, "part")
		if got, ok := prefix.SinglePart(prefix.Key(want)); !ok || got != want {
			t.Fatalf("SinglePart(Key(%q)) = %q, %t, want the part", want, got, ok)
		}
	})
	for _, k := range []store.Key{
		other.Key("a"), prefix.Key("a", "b"), prefix.Key(),
		store.KeyIn(prefix.Partition("a"), "b"),
		{},
	} {
		if part, ok := prefix.SinglePart(k); ok {
			t.Errorf("SinglePart(%v) = %q, want none", k, part)
		}
	}
}

func TestPartsInvertsPartition(t *testing.T) {
	const prefix, other store.KeyPrefix = "audit", "audit-new"
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.String(), 1, 3).Draw(t, "parts")
		if got := prefix.Parts(prefix.Partition(want...)); !slices.Equal(got, want) {
			t.Fatalf("Parts(Partition(%q)) = %q, want the parts", want, got)
		}
	})
	if got := prefix.Parts(other.Partition("a")); got != nil {
		t.Errorf("Parts() of another prefix = %q, want nil", got)
	}
}

// TestLeadingKeyPatternsMatchOnlyTheirPrefix checks the patterns that limit a role to partitions: IAM matches "*" with
// any text.
func TestLeadingKeyPatternsMatchOnlyTheirPrefix(t *testing.T) {
	matches := func(patterns []string, partition string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool {
			prefix, wildcard := strings.CutSuffix(p, "*")
			return p == partition || wildcard && strings.HasPrefix(partition, prefix)
		})
	}
	patterns := store.KeyPrefix("account").LeadingKeyPatterns()
	for partition, want := range map[string]bool{
		store.KeyPrefix("account").Partition():                true,
		store.KeyPrefix("account").Partition("a"):             true,
		store.KeyPrefix("account").Partition("a#b", "*"):      true,
		store.KeyPrefix("account-keys").Partition("a"):        false,
		store.KeyPrefix("account-keys").Partition():           false,
		store.KeyPrefix("accounts").Partition("account", "a"): false,
		store.KeyPrefix("other").Partition("account"):         false,
		"": false,
	} {
		if matches(patterns, partition) != want {
			t.Errorf("%q matches %q: %t, want %t", patterns, partition, !want, want)
		}
		if gotPrefix := store.KeyPrefixOf(partition); (gotPrefix == "account") != want {
			t.Errorf("KeyPrefixOf(%q) = %q, want \"account\": %t", partition, gotPrefix, want)
		}
	}
}
