package seal_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/seal"
)

// roots are a first root key and its successors, each with its lineage.
func roots(t *testing.T, n int) []seal.Root {
	t.Helper()
	out := []seal.Root{{Number: 1, Key: testKey(1)}}
	for len(out) < n {
		before := out[len(out)-1]
		next := seal.Root{Number: before.Number + 1, Key: testKey(byte(before.Number + 1))}
		sealed, err := before.Bequeath(next)
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

func rings(t *testing.T, writing int, of ...seal.Root) source {
	t.Helper()
	r, err := seal.NewRing(writing, of...)
	if err != nil {
		t.Fatal(err)
	}
	return source{r}
}

type source struct{ ring *seal.Ring }

func (s source) Root(context.Context) ([]byte, error)     { return s.ring.Writing().Key, nil }
func (s source) Ring(context.Context) (*seal.Ring, error) { return s.ring, nil }

func TestBothRootKeysOpenAndOneSeals(t *testing.T) {
	all := roots(t, 2)
	old, both, after := rings(t, 1, all[0]), rings(t, 2, all...), rings(t, 2, all[1])
	sealed, err := seal.NewSealer(old).Seal(t.Context(), []byte("text"), "record")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := seal.NewSealer(both).Open(t.Context(), sealed, "record"); err != nil || string(got) != "text" {
		t.Errorf("a rotation opens %q, %v", got, err)
	}
	renewed, other, err := seal.NewSealer(both).Renew(t.Context(), sealed, "record")
	if err != nil || !other {
		t.Fatalf("it is renewed: %v, %v", other, err)
	}
	if same, other, err := seal.NewSealer(both).Renew(t.Context(), renewed, "record"); err != nil || other || !slices.Equal(same, renewed) {
		t.Errorf("what is renewed is renewed again: %v, %v", other, err)
	}
	if got, err := seal.NewSealer(after).Open(t.Context(), renewed, "record"); err != nil || string(got) != "text" {
		t.Errorf("the new root key opens %q, %v", got, err)
	}
	if _, err := seal.NewSealer(after).Open(t.Context(), sealed, "record"); !errors.Is(err, seal.ErrSealed) {
		t.Errorf("a retired root key opens still: %v", err)
	}
	if _, err := seal.NewSealer(old).Open(t.Context(), renewed, "record"); !errors.Is(err, seal.ErrSealed) {
		t.Errorf("the old root key opens what was renewed: %v", err)
	}
	if _, _, err := seal.NewSealer(both).Renew(t.Context(), sealed, "another record"); !errors.Is(err, seal.ErrSealed) {
		t.Errorf("a value of another record is renewed: %v", err)
	}
	// A process that has not come to the new one yet takes nothing back.
	if _, other, err := seal.NewSealer(rings(t, 1, all...)).Renew(t.Context(), renewed, "record"); err != nil || other {
		t.Errorf("a value goes back: %v, %v", other, err)
	}
}

// TestKeptHashesAreRenewedWithoutTheirTexts through any number of rotations, and are found meanwhile.
func TestKeptHashesAreRenewedWithoutTheirTexts(t *testing.T) {
	all := roots(t, 4)
	kept, err := seal.NewHasher(rings(t, 1, all[0]), "consumer-key").Hash(t.Context(), "gwk_example")
	if err != nil {
		t.Fatal(err)
	}
	first := kept
	for i := 1; i < len(all); i++ {
		for _, writing := range []int{i, i + 1} {
			h := seal.NewHasher(rings(t, writing, all[i-1], all[i]), "consumer-key")
			lookups, err := h.Lookups(t.Context(), "gwk_example")
			if err != nil || len(lookups) != 2 || lookups[0] != kept {
				t.Fatalf("while %d becomes %d, it is looked for at %v, %v; it is at %s", i, i+1, lookups, err, kept)
			}
		}
		after := seal.NewHasher(rings(t, i+1, all[i]), "consumer-key")
		renewed, other, err := after.Renew(t.Context(), kept)
		if err != nil || !other {
			t.Fatalf("it is renewed: %v, %v", other, err)
		}
		if want, err := after.Hash(t.Context(), "gwk_example"); err != nil || renewed != want {
			t.Errorf("it is renewed to %s, and looked for at %s (%v)", renewed, want, err)
		}
		if same, other, err := after.Renew(t.Context(), renewed); err != nil || other || same != renewed {
			t.Errorf("what is renewed is renewed again to %s: %v, %v", same, other, err)
		}
		kept = renewed
	}
	// Data of long ago, such as from a backup, comes all the way.
	if got, _, err := seal.NewHasher(rings(t, 4, all[3]), "consumer-key").Renew(t.Context(), first); err != nil || got != kept {
		t.Errorf("the first hash becomes %s, not %s (%v)", got, kept, err)
	}
	// Who has the old root key alone knows no hash of the new one.
	if !strings.HasPrefix(kept, "4.") {
		t.Errorf("the hash %s does not say whose it is", kept)
	}
	for _, bad := range []string{"", "gwk_example", "1." + first, "x." + first, "5.short", "-3." + first} {
		if got, _, err := seal.NewHasher(rings(t, 4, all[3]), "consumer-key").Renew(t.Context(), bad); err == nil {
			t.Errorf("%q is renewed to %q", bad, got)
		}
	}
}

func TestWhatOthersHavePublishedStays(t *testing.T) {
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
				t.Errorf("the hash for %s is another under root key %d", purpose, root.Number)
			}
		}
	}
}

func TestWhatIsHeldForMinutesIsGoodUnderBoth(t *testing.T) {
	all := roots(t, 2)
	sum, err := seal.NewHasher(rings(t, 1, all[0]), "list-cursor").Hash(t.Context(), "text")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		of   source
		text string
		want bool
	}{
		"one before":   {rings(t, 1, all[0]), "text", true},
		"two":          {rings(t, 2, all...), "text", true},
		"two, another": {rings(t, 2, all...), "texu", false},
		"one after":    {rings(t, 2, all[1]), "text", false},
	} {
		if got, err := seal.NewHasher(test.of, "list-cursor").Matches(t.Context(), test.text, sum); err != nil || got != test.want {
			t.Errorf("%s: it matches: %v, %v", name, got, err)
		}
	}
}

func TestLineageOpensUnderItsRootKeyAlone(t *testing.T) {
	all := roots(t, 2)
	sealed, err := all[0].Bequeath(seal.Root{Number: 2, Key: testKey(2)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := seal.OpenLineage(testKey(1), 2, sealed); !errors.Is(err, seal.ErrSealed) {
		t.Errorf("the old root key opens it: %v", err)
	}
	if _, err := seal.OpenLineage(testKey(2), 3, sealed); !errors.Is(err, seal.ErrSealed) {
		t.Errorf("it is taken for another number's: %v", err)
	}
	if l, err := seal.OpenLineage(testKey(1), 1, nil); err != nil || l != nil {
		t.Errorf("the first one has %v, %v", l, err)
	}
}

func TestHashesOfNoDeclaredPurposeAreRefused(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("nothing says what a rotation makes of them")
		}
	}()
	seal.NewHasher(testKey(1), "new-thing")
}

// TestRootKeyOfTheSameNumberIsNotTheSame: two installations have each a first one.
func TestRootKeyOfTheSameNumberIsNotTheSame(t *testing.T) {
	its, other := seal.Root{Number: 1, Key: bytes.Repeat([]byte{1}, seal.KeyBytes)}, seal.Root{Number: 1, Key: bytes.Repeat([]byte{2}, seal.KeyBytes)}
	for _, c := range []struct {
		earlier seal.Root
		want    bool
	}{{its, true}, {other, false}} {
		if is, err := its.Descends(c.earlier); err != nil || is != c.want {
			t.Errorf("it descends: %v, %v", is, err)
		}
	}
}

// TestHeirHasNoMoreOfRootKeysThanHashesNeed: of what is carried on, the first one's alone, and nothing of what is made afresh.
func TestHeirHasNoMoreOfRootKeysThanHashesNeed(t *testing.T) {
	root := seal.Root{Number: 1, Key: bytes.Repeat([]byte{1}, seal.KeyBytes)}
	for number := 2; number < 5; number++ {
		lineage, err := root.Heirs()
		if err != nil {
			t.Fatal(err)
		}
		if n := len(lineage["audit-chain"]); n != 1 || lineage["audit-chain"][1] == nil {
			t.Errorf("the root key %d has %d of the audit logs'", number, n)
		}
		if n := len(lineage["consumer-key"]); n != number-1 {
			t.Errorf("the root key %d has %d of consumers' keys", number, n)
		}
		root = seal.Root{Number: number, Key: bytes.Repeat([]byte{byte(number)}, seal.KeyBytes), Lineage: lineage}
	}
}
