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
	// Lineage is what hashes need of the root keys before it, nil for the first.
	Lineage Lineage

	aead func() (cipher.AEAD, error)
}

// Lineage has subkeys of root keys that are gone: for each purpose whose hashes are kept, by
// the number of the root key. Of what was sealed under those root keys it opens nothing.
type Lineage map[string]map[int][]byte

// Ring is the root keys of an installation at a moment: one, and two while it is rotated. It never
// changes.
type Ring struct {
	roots   []*Root // by their numbers: what is kept moves from the first to the last
	writing *Root
}

// Rings is a KeySource that may have a second root key.
type Rings interface {
	KeySource
	// Ring gives the root keys as they are now, the same pointer as long as they are the same.
	Ring(ctx context.Context) (*Ring, error)
}

// NewRing makes the ring of the root keys, whose numbers differ; that with the number writing seals and hashes.
func NewRing(writing int, roots ...Root) (*Ring, error) {
	r := &Ring{}
	for _, root := range roots {
		if err := checkSize(root.Key); err != nil {
			return nil, err
		}
		root.aead = sync.OnceValues(func() (cipher.AEAD, error) { return newAEAD(root.Key) })
		r.roots = append(r.roots, &root)
		if root.Number == writing {
			r.writing = &root
		}
	}
	if r.writing == nil {
		return nil, errors.New("seal: the root key that seals is not among those there are")
	}
	slices.SortFunc(r.roots, func(a, b *Root) int { return a.Number - b.Number })
	return r, nil
}

// Writing is the root key that seals and hashes.
func (r *Ring) Writing() Root { return *r.writing }

// Descends reports whether r is the root key earlier, or came after it by rotations: of two tables with the same past one may have gone
// on for longer, or both on ways of their own.
func (r Root) Descends(earlier Root) (bool, error) {
	if r.Number == earlier.Number {
		return subtle.ConstantTimeCompare(r.Key, earlier.Key) == 1, nil
	}
	for purpose, fate := range purposes {
		if fate != Chained {
			continue
		}
		key, err := subkey(earlier.Key, hashing+purpose)
		if err != nil || subtle.ConstantTimeCompare(r.Lineage[purpose][earlier.Number], key) != 1 {
			return false, err
		}
	}
	return true, nil
}

// Fingerprint tells a root key from others for who reads it, and gives nothing of it away.
func (r Root) Fingerprint() (string, error) {
	key, err := subkey(r.Key, hashing+checkPurpose)
	if err != nil {
		return "", err
	}
	const characters = 16
	return newLink(r.Number, key).hash(checked)[:characters], nil
}

// Turning reports whether there are two root keys.
func (r *Ring) Turning() bool { return len(r.roots) > 1 }

func checkSize(root []byte) error {
	if len(root) != KeyBytes {
		return fmt.Errorf("seal: the root key has %d bytes, not %d", len(root), KeyBytes)
	}
	return nil
}

// ringOf asks the source. That of a source with one key is remembered beside the bytes it was
// made of, so that the source alone decides how long a key lives.
func ringOf(ctx context.Context, source KeySource, remembered *atomic.Pointer[Ring]) (*Ring, error) {
	if s, ok := source.(Rings); ok {
		return s.Ring(ctx)
	}
	root, err := source.Root(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkSize(root); err != nil {
		return nil, err
	}
	if r := remembered.Load(); r != nil && &r.writing.Key[0] == &root[0] {
		return r, nil
	}
	r, err := NewRing(1, Root{Number: 1, Key: root})
	if err == nil {
		remembered.Store(r)
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

// Heirs is the lineage of the root key that comes after r.
func (r Root) Heirs() (Lineage, error) {
	out := Lineage{}
	for purpose, fate := range purposes {
		if fate == Fresh {
			continue
		}
		out[purpose] = map[int][]byte{}
		for number, key := range r.Lineage[purpose] {
			out[purpose][number] = key
		}
		if fate == Carried && len(out[purpose]) > 0 {
			continue // the first one's is the one that is used
		}
		key, err := subkey(r.Key, hashing+purpose)
		if err != nil {
			return nil, err
		}
		out[purpose][r.Number] = key
	}
	return out, nil
}

func lineageContext(number int) string { return fmt.Sprintf("root-key/lineage/%d", number) }

// sealLineage seals a root key's lineage under itself.
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

// OpenLineage opens what the lineage of the root key with the number was sealed to, nil for none.
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
