package seal_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/seal"
)

// rootKey is a KeySource that always has the same key.
type rootKey []byte

func (k rootKey) Root(context.Context) ([]byte, error) { return k, nil }

// brokenSource is a KeySource that never answers.
type brokenSource struct{}

var errSource = errors.New("no key today")

func (brokenSource) Root(context.Context) ([]byte, error) { return nil, errSource }

func testKey(fill byte) rootKey { return bytes.Repeat([]byte{fill}, seal.KeyBytes) }

// overhead is the version, the nonce and the tag.
const overhead = 1 + 12 + 16

func TestSealedValueOpensForItsContextAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOf(rapid.Byte()).Draw(t, "text")
		of := rapid.String().Draw(t, "context")
		other := rapid.String().Filter(func(s string) bool { return s != of }).Draw(t, "other context")
		s := seal.NewSealer(testKey(1))
		sealed, err := s.Seal(t.Context(), text, of)
		if err != nil {
			t.Fatal(err)
		}
		if len(sealed) != len(text)+overhead {
			t.Errorf("sealed value has %d bytes, want %d", len(sealed), len(text)+overhead)
		}
		opened, err := s.Open(t.Context(), sealed, of)
		if err != nil || !bytes.Equal(opened, text) {
			t.Fatalf("opened as %q, %v", opened, err)
		}
		if _, err := s.Open(t.Context(), sealed, other); !errors.Is(err, seal.ErrSealed) {
			t.Errorf("opened for another context: %v", err)
		}
	})
}

func TestSealingTwiceGivesTwoValues(t *testing.T) {
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
		t.Errorf("%d values of 100 differ", len(seen))
	}
}

func TestEveryChangedByteIsRefused(t *testing.T) {
	s := seal.NewSealer(testKey(1))
	sealed, err := s.Seal(t.Context(), []byte("a consumer's key"), "record")
	if err != nil {
		t.Fatal(err)
	}
	for i := range sealed {
		changed := slices.Clone(sealed)
		changed[i] ^= 0x10
		if _, err := s.Open(t.Context(), changed, "record"); !errors.Is(err, seal.ErrSealed) {
			t.Errorf("byte %d changed: %v", i, err)
		}
		if _, err := s.Open(t.Context(), sealed[:i], "record"); !errors.Is(err, seal.ErrSealed) {
			t.Errorf("cut to %d bytes: %v", i, err)
		}
	}
}

func TestAnotherRootKeyOpensNothing(t *testing.T) {
	sealed, err := seal.NewSealer(testKey(1)).Seal(t.Context(), []byte("text"), "record")
	if err != nil {
		t.Fatal(err)
	}
	_, err = seal.NewSealer(testKey(2)).Open(t.Context(), sealed, "record")
	if !errors.Is(err, seal.ErrSealed) {
		t.Errorf("opened under another key: %v", err)
	}
	if strings.Contains(err.Error(), "text") {
		t.Errorf("the error holds the content: %v", err)
	}
}

// A value sealed by the first release opens in every later one.
func TestStoredValueStillOpens(t *testing.T) {
	s := seal.NewSealer(testKey(7))
	opened, err := s.Open(t.Context(), storedValue, "consumer-key/key_1")
	if err != nil || string(opened) != "gwk_example" {
		t.Errorf("opened as %q, %v", opened, err)
	}
}

func TestHashIsStableAndDiffersByPurposeTextAndKey(t *testing.T) {
	// The first is pinned: keys stored under it must be found by later releases.
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
		t.Errorf("hash is %q, want %q", first, want)
	}
	for name, other := range map[string]string{
		"root key": hash(testKey(8), "consumer-key", "gwk_example"),
		"purpose":  hash(testKey(7), "tunnel-token", "gwk_example"),
		"text":     hash(testKey(7), "consumer-key", "gwk_examplf"),
	} {
		if other == first {
			t.Errorf("another %s has the same hash", name)
		}
	}
	h := seal.NewHasher(testKey(7), "consumer-key")
	for range 3 { // states are used again
		if again, err := h.Hash(t.Context(), "gwk_example"); err != nil || again != first {
			t.Errorf("hashed again as %q, %v", again, err)
		}
	}
}

func TestNothingIsSealedWithoutAProperRootKey(t *testing.T) {
	for name, source := range map[string]seal.KeySource{
		"failing source": brokenSource{},
		"short key":      rootKey("too short"),
		"no key":         rootKey(nil),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := seal.NewSealer(source).Seal(t.Context(), []byte("text"), ""); err == nil {
				t.Error("sealed")
			}
			if _, err := seal.NewSealer(source).Open(t.Context(), storedValue, ""); err == nil || errors.Is(err, seal.ErrSealed) {
				t.Errorf("opened: %v", err)
			}
			if _, err := seal.NewHasher(source, "list-cursor").Hash(t.Context(), "text"); err == nil {
				t.Error("hashed")
			}
		})
	}
}

// turningSource is a KeySource whose key is another one each time.
type turningSource struct{ keys []rootKey }

func (s *turningSource) Root(context.Context) ([]byte, error) {
	key := s.keys[0]
	s.keys = append(s.keys[1:], key)
	return key, nil
}

// TestTheSourceDecidesHowLongAKeyLives: what is remembered of a key is used with
// that key alone.
func TestTheSourceDecidesHowLongAKeyLives(t *testing.T) {
	source := &turningSource{[]rootKey{testKey(1), testKey(2)}}
	s := seal.NewSealer(source)
	for turn := range 4 {
		sealed, err := s.Seal(t.Context(), []byte("text"), "record")
		if err != nil {
			t.Fatal(err)
		}
		for fill := byte(1); fill <= 2; fill++ {
			_, err := seal.NewSealer(testKey(fill)).Open(t.Context(), sealed, "record")
			if own := int(fill) == turn%2+1; own != (err == nil) {
				t.Errorf("turn %d, key %d: %v", turn, fill, err)
			}
		}
	}
	h := seal.NewHasher(source, "list-cursor")
	for turn := range 4 {
		got, err := h.Hash(t.Context(), "text")
		want, wantErr := seal.NewHasher(testKey(byte(turn%2+1)), "list-cursor").Hash(t.Context(), "text")
		if err != nil || wantErr != nil || got != want {
			t.Errorf("turn %d: %s, not %s (%v, %v)", turn, got, want, err, wantErr)
		}
	}
}

func FuzzOpenNeverAcceptsWhatWasNotSealed(f *testing.F) {
	f.Add(storedValue, "consumer-key/key_1")
	f.Add(storedValue, "consumer-key/key_2")
	f.Add([]byte{}, "")
	f.Add([]byte{1}, "x")
	f.Add(make([]byte, overhead), "x")
	f.Add(append([]byte{1}, make([]byte, 64)...), "x")
	s := seal.NewSealer(testKey(7))
	f.Fuzz(func(t *testing.T, sealed []byte, of string) {
		genuine := bytes.Equal(sealed, storedValue) && of == "consumer-key/key_1"
		opened, err := s.Open(t.Context(), sealed, of)
		if genuine != (err == nil) {
			t.Errorf("opened as %q, %v", opened, err)
		}
		if err != nil && !errors.Is(err, seal.ErrSealed) {
			t.Errorf("answered %v", err)
		}
	})
}
