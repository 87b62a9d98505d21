package seal_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/core/seal"
)

// roots returns n root keys: a first root key and its successors, each with its lineage.
func roots(t *testing.T, n int) []seal.Root {
	t.Helper()
	out := []seal.Root{{Number: 1, Key: testKey(1)}}
	for len(out) < n {
		previous := out[len(out)-1]
		next := seal.Root{Number: previous.Number + 1, Key: testKey(byte(previous.Number + 1))}
		sealed, err := previous.SealLineageFor(next)
		if err != nil {
			t.Fatal(err)
		}
		if next.Lineage, err = seal.OpenLineage(next.Key, next.Number, sealed); err != nil {
			t.Fatal(err)
		}
		out = append(out, next)
	}
	return out
}

// rings returns a source with these root keys. The root key with the number writing seals and hashes.
func rings(t *testing.T, writing int, roots ...seal.Root) source {
	t.Helper()
	r, err := seal.NewRing(writing, roots...)
	if err != nil {
		t.Fatal(err)
	}
	return source{r}
}

// source is a seal.RingSource that always returns the same ring.
type source struct{ ring *seal.Ring }

func (s source) Root(context.Context) ([]byte, error)     { return s.ring.Primary().Key, nil }
func (s source) Ring(context.Context) (*seal.Ring, error) { return s.ring, nil }

func TestRenewDuringRotation(t *testing.T) {
	all := roots(t, 2)
	old, both, after := rings(t, 1, all[0]), rings(t, 2, all...), rings(t, 2, all[1])
	sealed, err := seal.NewSealer(old).Seal(t.Context(), []byte("text"), "record")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := seal.NewSealer(both).Open(t.Context(), sealed, "record"); err != nil || string(got) != "text" {
		t.Errorf("Open() during a rotation = %q, %v, want \"text\"", got, err)
	}
	renewed, changed, err := seal.NewSealer(both).Renew(t.Context(), sealed, "record")
	if err != nil || !changed {
		t.Fatalf("Renew() = changed %t, %v, want true", changed, err)
	}
	if same, changed, err := seal.NewSealer(both).Renew(t.Context(), renewed, "record"); err != nil || changed ||
		!slices.Equal(same, renewed) {
		t.Errorf("Renew() of a renewed value = changed %t, %v, want the same value", changed, err)
	}
	if got, err := seal.NewSealer(after).Open(t.Context(), renewed, "record"); err != nil || string(got) != "text" {
		t.Errorf("Open() of a renewed value with the new root key = %q, %v, want \"text\"", got, err)
	}
	if _, err := seal.NewSealer(after).Open(t.Context(), sealed, "record"); !errors.Is(err, seal.ErrSealed) {
		t.Errorf("Open() of an old value with the new root key = %v, want %v", err, seal.ErrSealed)
	}
	if _, err := seal.NewSealer(old).Open(t.Context(), renewed, "record"); !errors.Is(err, seal.ErrSealed) {
		t.Errorf("Open() of a renewed value with the old root key = %v, want %v", err, seal.ErrSealed)
	}
	if _, _, err := seal.NewSealer(both).Renew(t.Context(), sealed, "another record"); !errors.Is(err, seal.ErrSealed) {
		t.Errorf("Renew() of a value of another record = %v, want %v", err, seal.ErrSealed)
	}
	// A process that still writes with the old key does not renew a value back to the old key.
	if _, changed, err := seal.NewSealer(rings(t, 1, all...)).Renew(t.Context(), renewed, "record"); err != nil ||
		changed {
		t.Errorf("Renew() in a process that writes with the old root key = changed %t, %v, want false", changed, err)
	}
}

// TestChainedHashesAreRenewed checks that a hash is renewed through several rotations, and can be looked up meanwhile.
func TestChainedHashesAreRenewed(t *testing.T) {
	all := roots(t, 4)
	stored, err := seal.NewHasher(rings(t, 1, all[0]), "consumer-key").Hash(t.Context(), "gwk_example")
	if err != nil {
		t.Fatal(err)
	}
	first := stored
	for i := 1; i < len(all); i++ {
		for _, writing := range []int{i, i + 1} {
			h := seal.NewHasher(rings(t, writing, all[i-1], all[i]), "consumer-key")
			lookups, err := h.Lookups(t.Context(), "gwk_example")
			if err != nil || len(lookups) != 2 || lookups[0] != stored {
				t.Fatalf("Lookups() during the rotation from %d to %d = %v, %v, want 2, the first of them %s",
					i, i+1, lookups, err, stored)
			}
		}
		after := seal.NewHasher(rings(t, i+1, all[i]), "consumer-key")
		renewed, changed, err := after.Renew(t.Context(), stored)
		if err != nil || !changed {
			t.Fatalf("Renew() of a hash = changed %t, %v, want true", changed, err)
		}
		if want, err := after.Hash(t.Context(), "gwk_example"); err != nil || renewed != want {
			t.Errorf("Renew() = %s, want %s, the new hash (%v)", renewed, want, err)
		}
		if same, changed, err := after.Renew(t.Context(), renewed); err != nil || changed || same != renewed {
			t.Errorf("Renew() of a renewed hash = %s, changed %t, %v, want %s, false", same, changed, err, renewed)
		}
		stored = renewed
	}
	// Old data, for example from a backup, is renewed over several rotations at once.
	if got, _, err := seal.NewHasher(rings(t, 4, all[3]), "consumer-key").Renew(t.Context(), first); err != nil ||
		got != stored {
		t.Errorf("Renew() of the first hash = %s, %v, want %s", got, err, stored)
	}
	// A hash begins with the number of its root key.
	if !strings.HasPrefix(stored, "4.") {
		t.Errorf("hash = %s, want the prefix 4.", stored)
	}
	for _, invalid := range []string{"", "gwk_example", "1." + first, "x." + first, "5.short", "-3." + first} {
		if got, _, err := seal.NewHasher(rings(t, 4, all[3]), "consumer-key").Renew(t.Context(), invalid); err == nil {
			t.Errorf("Renew(%q) = %q, want an error", invalid, got)
		}
	}
}

func TestPinnedHashesSurviveRotation(t *testing.T) {
	all := roots(t, 3)
	for _, purpose := range []string{"audit-chain", "custom-domain"} {
		var first string
		for i, root := range all {
			got, err := seal.NewHasher(rings(t, root.Number, root), purpose).Hash(t.Context(), "text")
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				first = got
			}
			if got != first {
				t.Errorf("hash for %s under root key %d = %s, want %s", purpose, root.Number, got, first)
			}
		}
	}
}

func TestMatchesUnderBothRootKeys(t *testing.T) {
	all := roots(t, 2)
	sum, err := seal.NewHasher(rings(t, 1, all[0]), "list-cursor").Hash(t.Context(), "text")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		source source
		text   string
		want   bool
	}{
		"the old root key":                {rings(t, 1, all[0]), "text", true},
		"both root keys":                  {rings(t, 2, all...), "text", true},
		"both root keys and another text": {rings(t, 2, all...), "texu", false},
		"the new root key":                {rings(t, 2, all[1]), "text", false},
	} {
		if got, err := seal.NewHasher(test.source, "list-cursor").Matches(t.Context(), test.text, sum); err != nil ||
			got != test.want {
			t.Errorf("%s: Matches() = %t, %v, want %t", name, got, err, test.want)
		}
	}
}

func TestLineageOpensOnlyUnderItsRootKey(t *testing.T) {
	all := roots(t, 2)
	sealed, err := all[0].SealLineageFor(seal.Root{Number: 2, Key: testKey(2)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := seal.OpenLineage(testKey(1), 2, sealed); !errors.Is(err, seal.ErrSealed) {
		t.Errorf("OpenLineage() with the old root key = %v, want %v", err, seal.ErrSealed)
	}
	if _, err := seal.OpenLineage(testKey(2), 3, sealed); !errors.Is(err, seal.ErrSealed) {
		t.Errorf("OpenLineage() with another number = %v, want %v", err, seal.ErrSealed)
	}
	if l, err := seal.OpenLineage(testKey(1), 1, nil); err != nil || l != nil {
		t.Errorf("OpenLineage() of the first root key = %v, %v, want no lineage", l, err)
	}
}

func TestUndeclaredPurposePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("NewHasher() with an undeclared purpose returns, want a panic")
		}
	}()
	seal.NewHasher(testKey(1), "new-thing")
}

// TestDescendsFromComparesKeys compares a first root key with itself, and with the first root key of another installation.
func TestDescendsFromComparesKeys(t *testing.T) {
	root, other := seal.Root{Number: 1, Key: bytes.Repeat([]byte{1}, seal.KeyBytes)},
		seal.Root{Number: 1, Key: bytes.Repeat([]byte{2}, seal.KeyBytes)}
	for _, c := range []struct {
		earlier seal.Root
		want    bool
	}{{root, true}, {other, false}} {
		if descends, err := root.DescendsFrom(c.earlier); err != nil || descends != c.want {
			t.Errorf("DescendsFrom(the same root key: %t) = %t, %v, want %t", c.want, descends, err, c.want)
		}
	}
}

// TestSuccessorLineageIsMinimal checks that the lineage has only the first subkey for pinned hashes,
// a subkey of each earlier root key for chained hashes, and no subkey for fresh hashes.
func TestSuccessorLineageIsMinimal(t *testing.T) {
	root := seal.Root{Number: 1, Key: bytes.Repeat([]byte{1}, seal.KeyBytes)}
	for number := 2; number < 5; number++ {
		lineage, err := root.SuccessorLineage()
		if err != nil {
			t.Fatal(err)
		}
		if n := len(lineage["audit-chain"]); n != 1 || lineage["audit-chain"][1] == nil {
			t.Errorf("root key %d has %d subkeys for audit-chain, want only the first", number, n)
		}
		if n := len(lineage["consumer-key"]); n != number-1 {
			t.Errorf("root key %d has %d subkeys for consumer-key, want %d", number, n, number-1)
		}
		if n := len(lineage["list-cursor"]); n != 0 {
			t.Errorf("root key %d has %d subkeys for list-cursor, want 0", number, n)
		}
		root = seal.Root{Number: number, Key: bytes.Repeat([]byte{byte(number)}, seal.KeyBytes), Lineage: lineage}
	}
}
