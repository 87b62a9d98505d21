// Package seal encrypts data that the product must be able to show again (consumer
// keys, variables, artifacts) and hashes data that it must only recognize.
//
// Everything derives from one root key of the installation: a Sealer's key and each Hasher's
// key are subkeys of it (HKDF-SHA-256). In AWS the root key is wrapped by KMS and stored in
// the table (wrapped.go). In a local run and on a single server it is in a file (file.go). Both implement KeySource.
//
// A rotation (package rotation) replaces the root key. During a rotation a Ring has two root keys: one
// seals and hashes new data, and both open existing data. purpose.go says what a rotation does to hashes.
//
// The package does not know records and does not import the AWS SDK. The owner of
// a value, which seals and opens it, chooses the text to which the value is bound.
//
// Read this file first. The rules are those of design, section 5, the reasons in
// docs/decisions/0004-one-root-key.md and 0060-root-keys-follow-one-another.md.
package seal

import (
	"context"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
)

// KeyBytes is the size of the root key and of every key derived from it.
const KeyBytes = 32

// KeySource provides the root key. Implementations are safe for concurrent use.
type KeySource interface {
	// Root returns the KeyBytes bytes of the root key. The key is the same in every process of the
	// installation. It changes only if the source is a RingSource. The caller must not change the bytes.
	Root(ctx context.Context) ([]byte, error)
}

// ErrSealed is the error of Open for a value that was changed, truncated, sealed for another context or under
// another root key. It does not say which of these is the reason, because only an attacker could use that.
var ErrSealed = errors.New("seal: the value cannot be opened here: it was changed, or belongs to another " +
	"record or root key")

// version is the first byte of every sealed value. It must change if the format or the encryption changes.
const version = 1

// Sealer encrypts with AES-256-GCM. It is safe for concurrent use.
//
// A sealed value is the version (1 byte), the nonce (12), the ciphertext and the tag (16).
// The nonces are random, which is secure for the first 2^32 values under one root key.
type Sealer struct {
	source     KeySource
	cachedRing atomic.Pointer[Ring]
}

// NewSealer returns a Sealer. It calls the source when it is first used.
func NewSealer(source KeySource) *Sealer { return &Sealer{source: source} }

// overhead is the length of a sealed value minus the length of its plaintext, in bytes.
const overhead = 1 + 12 + 16

// Seal encrypts plaintext and binds it to context: a text such as "consumer-key/<id>"
// that identifies the record of the value. The context is not secret and not stored.
func (s *Sealer) Seal(ctx context.Context, plaintext []byte, context string) ([]byte, error) {
	aead, err := s.cipher(ctx)
	if err != nil {
		return nil, fmt.Errorf("seal a value: %w", err)
	}
	sealed := make([]byte, 1, len(plaintext)+overhead)
	sealed[0] = version
	return aead.Seal(sealed, nil, plaintext, associated(context)), nil
}

// Open returns the plaintext of a sealed value. It returns ErrSealed unless the value is unchanged and was sealed for
// the same context, under one of the ring's root keys. Open does not change sealed.
func (s *Sealer) Open(ctx context.Context, sealed []byte, context string) ([]byte, error) {
	plaintext, _, err := s.open(ctx, sealed, context)
	return plaintext, err
}

// Renew seals a value again under the current root key, and reports whether the value has changed. It returns
// the value unchanged if it is sealed under the current root key already. It returns ErrSealed as Open does.
func (s *Sealer) Renew(ctx context.Context, sealed []byte, context string) (renewed []byte, changed bool, err error) {
	plaintext, current, err := s.open(ctx, sealed, context)
	if err != nil || current {
		return sealed, false, err
	}
	renewed, err = s.Seal(ctx, plaintext, context)
	return renewed, err == nil, err
}

// open works as Open does. It also reports whether the current root key, or a newer one, opened the value.
func (s *Sealer) open(ctx context.Context, sealed []byte, context string) (plaintext []byte, current bool, err error) {
	ring, err := ringOf(ctx, s.source, &s.cachedRing)
	if err != nil {
		return nil, false, fmt.Errorf("open a sealed value: %w", err)
	}
	// Try the newest key first: for most of a rotation, most values are sealed under it.
	for _, root := range slices.Backward(ring.roots) {
		aead, err := root.aead()
		if err != nil {
			return nil, false, fmt.Errorf("open a sealed value: %w", err)
		}
		if plaintext, err = open(aead, sealed, context); err == nil {
			return plaintext, root.Number >= ring.primary.Number, nil
		}
	}
	return nil, false, ErrSealed
}

// associated returns the data that the tag authenticates, including the
// version, so that an attacker cannot change the version of a value.
func associated(context string) []byte {
	return append([]byte{version}, context...)
}

func (s *Sealer) cipher(ctx context.Context) (cipher.AEAD, error) {
	ring, err := ringOf(ctx, s.source, &s.cachedRing)
	if err != nil {
		return nil, err
	}
	return ring.primary.aead()
}

// subkey derives the key of one purpose. Subkeys are independent: from one of them no other can be computed.
func subkey(root []byte, purpose string) ([]byte, error) {
	key, err := hkdf.Key(sha256.New, root, nil, "gatewright/"+purpose, KeyBytes)
	if err != nil {
		return nil, fmt.Errorf("derive the key of %s: %w", purpose, err)
	}
	return key, nil
}
