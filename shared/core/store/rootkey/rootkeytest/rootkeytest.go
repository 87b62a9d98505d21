// Package rootkeytest is a KMS for tests. It has the KMS keys of one region and the keys that
// these have wrapped. It returns the errors of KMS for unknown and disabled KMS keys.
//
// It does not encrypt: the wrapped form of a key has only a number. This file is the whole package.
package rootkeytest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/smithy-go"

	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store/rootkey"
)

// KMS has the keys of one region. It is safe for concurrent use, and deterministic for encryption contexts with at most
// one entry.
type KMS struct {
	mu      sync.Mutex
	keys    map[string]bool // whether each key is enabled, by id
	wrapped []wrapped
}

// wrapped is a key that a KMS key has wrapped. purpose is the text form of the encryption context.
type wrapped struct {
	keyID, purpose string
	key            []byte
}

var _ rootkey.EncryptClient = (*KMS)(nil)

// New returns a KMS with keys that have these ids.
func New(ids ...string) *KMS {
	k := &KMS{keys: map[string]bool{}}
	for _, id := range ids {
		k.keys[id] = true
	}
	return k
}

// Disable disables a key, so that KMS refuses to wrap and unwrap with it.
func (k *KMS) Disable(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys[id] = false
}

// GenerateDataKeyWithoutPlaintext implements rootkey.Client.
func (k *KMS) GenerateDataKeyWithoutPlaintext(
	_ context.Context, in *kms.GenerateDataKeyWithoutPlaintextInput, _ ...func(*kms.Options),
) (*kms.GenerateDataKeyWithoutPlaintextOutput, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	blob, err := k.wrap(*in.KeyId, bytes.Repeat([]byte{byte(len(k.wrapped) + 1)}, seal.KeyBytes), in.EncryptionContext) //nolint:gosec // G115: of a few
	return &kms.GenerateDataKeyWithoutPlaintextOutput{CiphertextBlob: blob}, err
}

// Encrypt implements rootkey.EncryptClient.
func (k *KMS) Encrypt(_ context.Context, in *kms.EncryptInput, _ ...func(*kms.Options)) (*kms.EncryptOutput, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	blob, err := k.wrap(*in.KeyId, bytes.Clone(in.Plaintext), in.EncryptionContext)
	return &kms.EncryptOutput{CiphertextBlob: blob}, err
}

// Decrypt implements rootkey.Client.
func (k *KMS) Decrypt(_ context.Context, in *kms.DecryptInput, _ ...func(*kms.Options)) (*kms.DecryptOutput, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.enabled(*in.KeyId); err != nil {
		return nil, err
	}
	const blobBytes = 2
	if len(in.CiphertextBlob) != blobBytes || int(in.CiphertextBlob[1]) >= len(k.wrapped) {
		return nil, apiError("InvalidCiphertextException")
	}
	w := k.wrapped[in.CiphertextBlob[1]]
	switch {
	case w.keyID != *in.KeyId:
		return nil, apiError("IncorrectKeyException")
	case w.purpose != purpose(in.EncryptionContext):
		return nil, apiError("InvalidCiphertextException")
	}
	return &kms.DecryptOutput{Plaintext: bytes.Clone(w.key)}, nil
}

func (k *KMS) wrap(id string, key []byte, encryptionContext map[string]string) ([]byte, error) {
	if err := k.enabled(id); err != nil {
		return nil, err
	}
	k.wrapped = append(k.wrapped, wrapped{id, purpose(encryptionContext), key})
	return []byte{'w', byte(len(k.wrapped) - 1)}, nil //nolint:gosec // G115: of a few
}

func (k *KMS) enabled(id string) error {
	switch on, exists := k.keys[id]; {
	case !exists:
		return apiError("NotFoundException")
	case !on:
		return apiError("DisabledException")
	}
	return nil
}

func purpose(encryptionContext map[string]string) string {
	var out strings.Builder
	for name, value := range maps.All(encryptionContext) {
		_, _ = fmt.Fprintf(&out, "%s=%s;", name, value)
	}
	return out.String()
}

// apiError returns an error in the form of AWS.
func apiError(code string) error { return &smithy.GenericAPIError{Code: code, Message: "no"} }
