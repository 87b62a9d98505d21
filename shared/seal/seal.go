// Package seal encrypts what the product must be able to show again (consumer
// keys, variables, artifacts) and hashes what it must only recognise.
//
// Everything derives from one root key of the installation: a Sealer's key and
// each Hasher's key are subkeys of it (HKDF-SHA-256). The root key is wrapped
// by KMS and kept in the table (wrapped.go), or stands in a file on a laptop
// (file.go); KeySource is the seam between them.
//
// A root key is replaced by a rotation (package rotation), while which a Ring has two: one writes and both open.
// purpose.go says what a rotation makes of hashes.
//
// What it is not: it knows no record and imports no AWS SDK. Which text a value
// is bound to is said by its owner, who seals and opens it.
//
// Read this file first. The rules are those of design, section 5, the reasons
// in docs/decisions/0004-one-root-key.md and
// 0060-root-keys-follow-one-another.md.
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

// KeyBytes is the size of the root key and of every key made from it.
const KeyBytes = 32

// KeySource gives the root key. Implementations are safe for concurrent use.
type KeySource interface {
	// Root gives the KeyBytes bytes of the root key: the same in every process
	// of the installation and, where it is no Rings, at all times. The caller must not change them.
	Root(ctx context.Context) ([]byte, error)
}

// ErrSealed is what Open answers for a value that was changed, cut short,
// sealed for another context or under another root key. It says no more:
// which of these it was is of use to an attacker alone.
var ErrSealed = errors.New("seal: the value cannot be opened here: it was changed, or belongs to another record or root key")

// version begins every sealed value: another way of sealing gets another.
const version = 1

// Sealer encrypts with AES-256-GCM. It is safe for concurrent use.
//
// A sealed value is the version (1 byte), the nonce (12), the ciphertext and
// the tag (16). The nonces are random, which is sound for the first 2^32
// values of an installation.
type Sealer struct {
	source     KeySource
	remembered atomic.Pointer[Ring]
}

// NewSealer makes a Sealer. It asks the source when it is first used.
func NewSealer(source KeySource) *Sealer { return &Sealer{source: source} }

// overhead is by how many bytes a sealed value is longer than its text.
const overhead = 1 + 12 + 16

// Seal encrypts plaintext and binds it to context: a text such as
// "consumer-key/<id>" that names the one record the value belongs to. The
// context is not secret and not stored.
func (s *Sealer) Seal(ctx context.Context, plaintext []byte, context string) ([]byte, error) {
	aead, err := s.cipher(ctx)
	if err != nil {
		return nil, fmt.Errorf("seal a value: %w", err)
	}
	sealed := make([]byte, 1, len(plaintext)+overhead)
	sealed[0] = version
	return aead.Seal(sealed, nil, plaintext, associated(context)), nil
}

// Open returns the text of a sealed value, or ErrSealed unless it was sealed for
// the same context and is unchanged, under a root key that there is. sealed is left as it is.
func (s *Sealer) Open(ctx context.Context, sealed []byte, context string) ([]byte, error) {
	plaintext, _, err := s.open(ctx, sealed, context)
	return plaintext, err
}

// Renew returns a sealed value as it is under the root key that writes, and whether that is another
// one: the value itself if it is sealed under that one. It answers ErrSealed as Open does.
func (s *Sealer) Renew(ctx context.Context, sealed []byte, context string) (renewed []byte, other bool, err error) {
	plaintext, current, err := s.open(ctx, sealed, context)
	if err != nil || current {
		return sealed, false, err
	}
	renewed, err = s.Seal(ctx, plaintext, context)
	return renewed, err == nil, err
}

// open tells as well whether it is the root key that writes which opens the value.
func (s *Sealer) open(ctx context.Context, sealed []byte, context string) (plaintext []byte, current bool, err error) {
	ring, err := ringOf(ctx, s.source, &s.remembered)
	if err != nil {
		return nil, false, fmt.Errorf("open a sealed value: %w", err)
	}
	// The newest first: it has most values for most of a rotation.
	for _, root := range slices.Backward(ring.roots) {
		aead, err := root.aead()
		if err != nil {
			return nil, false, fmt.Errorf("open a sealed value: %w", err)
		}
		if plaintext, err = open(aead, sealed, context); err == nil {
			return plaintext, root.Number >= ring.writing.Number, nil
		}
	}
	return nil, false, ErrSealed
}

// associated puts the version into what the tag covers, so that no value
// passes as one of another version.
func associated(context string) []byte {
	return append([]byte{version}, context...)
}

func (s *Sealer) cipher(ctx context.Context) (cipher.AEAD, error) {
	ring, err := ringOf(ctx, s.source, &s.remembered)
	if err != nil {
		return nil, err
	}
	return ring.writing.aead()
}

// subkey derives the key of one purpose. Purposes never meet: from one
// subkey no other can be computed.
func subkey(root []byte, purpose string) ([]byte, error) {
	key, err := hkdf.Key(sha256.New, root, nil, "gatewright/"+purpose, KeyBytes)
	if err != nil {
		return nil, fmt.Errorf("derive the key of %s: %w", purpose, err)
	}
	return key, nil
}
