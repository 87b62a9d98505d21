package seal

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// Root is one root key of an installation. Rotations number them from 1.
type Root struct {
	Number int
	// Key has KeyBytes bytes.
	Key []byte
	// Lineage has subkeys of earlier root keys, which hashes need. It is nil for the first root key.
	Lineage Lineage

	aead func() (cipher.AEAD, error)
}

// Lineage has subkeys of earlier root keys, by the purpose of the hashes and the number of the root key. It
// has the purposes that are chained or pinned. It cannot open values that were sealed under those root keys.
type Lineage map[string]map[int][]byte

// Ring has the root keys of an installation at one moment: one, or two during a rotation. It is immutable.
type Ring struct {
	roots   []*Root // sorted by number: a rotation moves stored data from the first to the last
	primary *Root
}

// RingSource is a KeySource that can have a second root key.
type RingSource interface {
	KeySource
	// Ring returns the current root keys. It returns the same pointer as long as they do not change.
	Ring(ctx context.Context) (*Ring, error)
}

// NewRing returns the ring of the root keys, whose numbers must
// differ. The root key with the number primary seals and hashes.
func NewRing(primary int, roots ...Root) (*Ring, error) {
	r := &Ring{}
	for _, root := range roots {
		if err := checkSize(root.Key); err != nil {
			return nil, err
		}
		root.aead = sync.OnceValues(func() (cipher.AEAD, error) { return newAEAD(root.Key) })
		r.roots = append(r.roots, &root)
		if root.Number == primary {
			r.primary = &root
		}
	}
	if r.primary == nil {
		return nil, errors.New("seal: the root key that seals is not among those there are")
	}
	slices.SortFunc(r.roots, func(a, b *Root) int { return a.Number - b.Number })
	return r, nil
}

// Primary returns the root key that seals and hashes.
func (r *Ring) Primary() Root { return *r.primary }

// DescendsFrom reports whether r is the root key earlier, or its successor by one or more rotations. The root keys of
// two copies of a table can differ because one copy was rotated further, or because both were rotated independently.
func (r Root) DescendsFrom(earlier Root) (bool, error) {
	if r.Number == earlier.Number {
		return subtle.ConstantTimeCompare(r.Key, earlier.Key) == 1, nil
	}
	for purpose, policy := range purposes {
		if policy != Chained {
			continue
		}
		key, err := subkey(earlier.Key, hashPrefix+purpose)
		if err != nil || subtle.ConstantTimeCompare(r.Lineage[purpose][earlier.Number], key) != 1 {
			return false, err
		}
	}
	return true, nil
}

// Fingerprint returns a short text that identifies a root key for people and reveals nothing about it.
func (r Root) Fingerprint() (string, error) {
	key, err := subkey(r.Key, hashPrefix+checkPurpose)
	if err != nil {
		return "", err
	}
	const characters = 16
	return newLink(r.Number, key).hash(checkText)[:characters], nil
}

// Rotating reports whether there are two root keys.
func (r *Ring) Rotating() bool { return len(r.roots) > 1 }

func checkSize(root []byte) error {
	if len(root) != KeyBytes {
		return fmt.Errorf("seal: the root key has %d bytes, not %d", len(root), KeyBytes)
	}
	return nil
}

// ringOf returns the source's ring. For a source with one key, it caches the ring. It still gets
// the key from the source at each call, so that only the source decides how long a key is used.
func ringOf(ctx context.Context, source KeySource, cache *atomic.Pointer[Ring]) (*Ring, error) {
	if s, ok := source.(RingSource); ok {
		return s.Ring(ctx)
	}
	root, err := source.Root(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkSize(root); err != nil {
		return nil, err
	}
	if r := cache.Load(); r != nil && &r.primary.Key[0] == &root[0] {
		return r, nil
	}
	r, err := NewRing(1, Root{Number: 1, Key: root})
	if err == nil {
		cache.Store(r)
	}
	return r, err
}

func newAEAD(root []byte) (cipher.AEAD, error) {
	key, err := subkey(root, "seal")
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("make the cipher: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("make the cipher: %w", err)
	}
	return aead, nil
}

// SuccessorLineage returns the lineage of the root key that follows r.
func (r Root) SuccessorLineage() (Lineage, error) {
	out := Lineage{}
	for purpose, policy := range purposes {
		if policy == Fresh {
			continue
		}
		out[purpose] = map[int][]byte{}
		for number, key := range r.Lineage[purpose] {
			out[purpose][number] = key
		}
		if policy == Pinned && len(out[purpose]) > 0 {
			continue // the subkey of the first root key is used
		}
		key, err := subkey(r.Key, hashPrefix+purpose)
		if err != nil {
			return nil, err
		}
		out[purpose][r.Number] = key
	}
	return out, nil
}

func lineageContext(number int) string { return fmt.Sprintf("root-key/lineage/%d", number) }

// sealLineage seals a root key's lineage under that root key.
func (r *Root) sealLineage() ([]byte, error) {
	plain, err := json.Marshal(r.Lineage)
	if err != nil {
		return nil, fmt.Errorf("encode a root key's lineage: %w", err)
	}
	aead, err := r.aead()
	if err != nil {
		return nil, err
	}
	return aead.Seal([]byte{version}, nil, plain, associated(lineageContext(r.Number))), nil
}

// OpenLineage opens the sealed lineage of the root key with this
// key and number. If sealed is nil, the root key has no lineage.
func OpenLineage(key []byte, number int, sealed []byte) (Lineage, error) {
	if sealed == nil {
		return nil, nil
	}
	if err := checkSize(key); err != nil {
		return nil, err
	}
	aead, err := newAEAD(key)
	if err != nil {
		return nil, err
	}
	plain, err := open(aead, sealed, lineageContext(number))
	if err != nil {
		return nil, err
	}
	var l Lineage
	if err := json.Unmarshal(plain, &l); err != nil {
		return nil, fmt.Errorf("decode a root key's lineage: %w", err)
	}
	return l, nil
}

func open(aead cipher.AEAD, sealed []byte, context string) ([]byte, error) {
	if len(sealed) < overhead || sealed[0] != version {
		return nil, ErrSealed
	}
	plaintext, err := aead.Open(nil, nil, sealed[1:], associated(context))
	if err != nil {
		return nil, ErrSealed
	}
	return plaintext, nil
}
