package seal_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/core/seal"
)

// rootKey is a KeySource that always has the same key.
type rootKey []byte

func (k rootKey) Root(context.Context) ([]byte, error) { return k, nil }

// brokenSource is a KeySource that always fails.
type brokenSource struct{}

var errSource = errors.New("the key source has failed")

func (brokenSource) Root(context.Context) ([]byte, error) { return nil, errSource }

func testKey(fill byte) rootKey { return bytes.Repeat([]byte{fill}, seal.KeyBytes) }

// overhead is the version, the nonce and the tag.
const overhead = 1 + 12 + 16

func TestSealedValueOpensOnlyForItsContext(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOf(rapid.Byte()).Draw(t, "text")
		context := rapid.String().Draw(t, "context")
		other := rapid.String().Filter(func(s string) bool { return s != context }).Draw(t, "other context")
		s := seal.NewSealer(testKey(1))
		sealed, err := s.Seal(t.Context(), text, context)
		if err != nil {
			t.Fatal(err)
		}
		if len(sealed) != len(text)+overhead {
			t.Errorf("sealed value has %d bytes, want %d", len(sealed), len(text)+overhead)
		}
		opened, err := s.Open(t.Context(), sealed, context)
		if err != nil || !bytes.Equal(opened, text) {
			t.Fatalf("Open() = %q, %v, want %q", opened, err, text)
		}
		if _, err := s.Open(t.Context(), sealed, other); !errors.Is(err, seal.ErrSealed) {
			t.Errorf("Open() for another context = %v, want %v", err, seal.ErrSealed)
		}
	})
}

func TestSealIsRandomized(t *testing.T) {
	s := seal.NewSealer(testKey(1))
	seen := map[string]bool{}
	for range 100 {
		sealed, err := s.Seal(t.Context(), []byte("text"), "record")
		if err != nil {
			t.Fatal(err)
		}
		seen[string(sealed)] = true
	}
	if len(seen) != 100 {
		t.Errorf("100 calls of Seal() with the same text return %d different values, want 100", len(seen))
	}
}

func TestChangedValueIsRefused(t *testing.T) {
	s := seal.NewSealer(testKey(1))
	sealed, err := s.Seal(t.Context(), []byte("a consumer's key"), "record")
	if err != nil {
		t.Fatal(err)
	}
	for i := range sealed {
		changed := slices.Clone(sealed)
		changed[i] ^= 0x10
		if _, err := s.Open(t.Context(), changed, "record"); !errors.Is(err, seal.ErrSealed) {
			t.Errorf("Open() with a changed byte %d = %v, want %v", i, err, seal.ErrSealed)
		}
		if _, err := s.Open(t.Context(), sealed[:i], "record"); !errors.Is(err, seal.ErrSealed) {
			t.Errorf("Open() of the first %d bytes = %v, want %v", i, err, seal.ErrSealed)
		}
	}
}

func TestOpenWithWrongRootKeyFails(t *testing.T) {
	sealed, err := seal.NewSealer(testKey(1)).Seal(t.Context(), []byte("text"), "record")
	if err != nil {
		t.Fatal(err)
	}
	_, err = seal.NewSealer(testKey(2)).Open(t.Context(), sealed, "record")
	if !errors.Is(err, seal.ErrSealed) {
		t.Errorf("Open() under another root key = %v, want %v", err, seal.ErrSealed)
	}
	if err != nil && strings.Contains(err.Error(), "text") {
		t.Errorf("Open() error = %v, want it without the content", err)
	}
}

// TestStoredValueStillOpens checks that this release opens a value that the first release sealed.
func TestStoredValueStillOpens(t *testing.T) {
	s := seal.NewSealer(testKey(7))
	opened, err := s.Open(t.Context(), storedValue, "consumer-key/key_1")
	if err != nil || string(opened) != "gwk_example" {
		t.Errorf("Open() of a stored value = %q, %v, want \"gwk_example\"", opened, err)
	}
}

func TestHashIsStableAndDiffersByPurposeTextAndKey(t *testing.T) {
	// This hash must never change: later releases must find keys that were stored under it.
	const want = "dczBrVXyj3gOIS6sE1sJGVbjkThDw22kg9M0XmYhnhE"
	hash := func(root rootKey, purpose, text string) string {
		h, err := seal.NewHasher(root, purpose).Hash(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	first := hash(testKey(7), "consumer-key", "gwk_example")
	if first != want {
		t.Errorf("Hash() = %q, want %q", first, want)
	}
	for name, other := range map[string]string{
		"root key": hash(testKey(8), "consumer-key", "gwk_example"),
		"purpose":  hash(testKey(7), "tunnel-token", "gwk_example"),
		"text":     hash(testKey(7), "consumer-key", "gwk_examplf"),
	} {
		if other == first {
			t.Errorf("Hash() with another %s = %s, want another hash", name, other)
		}
	}
	h := seal.NewHasher(testKey(7), "consumer-key")
	for range 3 { // states are reused
		if repeated, err := h.Hash(t.Context(), "gwk_example"); err != nil || repeated != first {
			t.Errorf("repeated Hash() = %q, %v, want %q", repeated, err, first)
		}
	}
}

func TestInvalidRootKeyIsRefused(t *testing.T) {
	for name, source := range map[string]seal.KeySource{
		"failing source": brokenSource{},
		"short key":      rootKey("too short"),
		"no key":         rootKey(nil),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := seal.NewSealer(source).Seal(t.Context(), []byte("text"), ""); err == nil {
				t.Error("Seal() with an invalid root key succeeds, want an error")
			}
			if _, err := seal.NewSealer(source).Open(t.Context(), storedValue, ""); err == nil ||
				errors.Is(err, seal.ErrSealed) {
				t.Errorf("Open() with an invalid root key = %v, want an error other than %v", err, seal.ErrSealed)
			}
			if _, err := seal.NewHasher(source, "list-cursor").Hash(t.Context(), "text"); err == nil {
				t.Error("Hash() with an invalid root key succeeds, want an error")
			}
		})
	}
}

// rotatingSource is a KeySource that returns its keys in turn, another key at each call.
type rotatingSource struct{ keys []rootKey }

func (s *rotatingSource) Root(context.Context) ([]byte, error) {
	key := s.keys[0]
	s.keys = append(s.keys[1:], key)
	return key, nil
}

// TestKeyIsCachedOnlyWhileSourceReturnsIt checks that the cached
// state of a key is not used after the source returns another key.
func TestKeyIsCachedOnlyWhileSourceReturnsIt(t *testing.T) {
	source := &rotatingSource{[]rootKey{testKey(1), testKey(2)}}
	s := seal.NewSealer(source)
	for i := range 4 {
		sealed, err := s.Seal(t.Context(), []byte("text"), "record")
		if err != nil {
			t.Fatal(err)
		}
		for fill := byte(1); fill <= 2; fill++ {
			_, err := seal.NewSealer(testKey(fill)).Open(t.Context(), sealed, "record")
			if active := int(fill) == i%2+1; active != (err == nil) {
				t.Errorf("turn %d: Open() with key %d = %v, want success %t", i, fill, err, active)
			}
		}
	}
	h := seal.NewHasher(source, "list-cursor")
	for i := range 4 {
		got, err := h.Hash(t.Context(), "text")
		want, wantErr := seal.NewHasher(testKey(byte(i%2+1)), "list-cursor").Hash(t.Context(), "text")
		if err != nil || wantErr != nil || got != want {
			t.Errorf("turn %d: Hash() = %s, %v, want %s, %v", i, got, err, want, wantErr)
		}
	}
}

func FuzzOpenRefusesForgedValues(f *testing.F) {
	f.Add(storedValue, "consumer-key/key_1")
	f.Add(storedValue, "consumer-key/key_2")
	f.Add([]byte{}, "")
	f.Add([]byte{1}, "x")
	f.Add(make([]byte, overhead), "x")
	f.Add(append([]byte{1}, make([]byte, 64)...), "x")
	s := seal.NewSealer(testKey(7))
	f.Fuzz(func(t *testing.T, sealed []byte, context string) {
		genuine := bytes.Equal(sealed, storedValue) && context == "consumer-key/key_1"
		opened, err := s.Open(t.Context(), sealed, context)
		if genuine != (err == nil) {
			t.Errorf("Open() = %q, %v, want success %t", opened, err, genuine)
		}
		if err != nil && !errors.Is(err, seal.ErrSealed) {
			t.Errorf("Open() = %v, want %v", err, seal.ErrSealed)
		}
	})
}
