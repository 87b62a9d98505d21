// Package rootkeytest has a KMS for tests: keys of one region, what they wrap, and what KMS answers about others.
//
// What it is not: a KMS. What is wrapped by it is a number.
// This file is all of it.
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

	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store/rootkey"
)

// KMS has the keys of one region. It is safe for concurrent use, and gives the same in each run.
type KMS struct {
	mu      sync.Mutex
	keys    map[string]bool // by their ids: whether they are enabled
	wrapped []wrapped
}

type wrapped struct {
	by, purpose string
	key         []byte
}

var _ rootkey.Mover = (*KMS)(nil)

// New makes a KMS with keys of these ids.
func New(ids ...string) *KMS {
	k := &KMS{keys: map[string]bool{}}
	for _, id := range ids {
		k.keys[id] = true
	}
	return k
}

// Disable has a key wrap and unwrap nothing from now on.
func (k *KMS) Disable(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys[id] = false
}

// GenerateDataKeyWithoutPlaintext implements rootkey.Client.
func (k *KMS) GenerateDataKeyWithoutPlaintext(_ context.Context, in *kms.GenerateDataKeyWithoutPlaintextInput, _ ...func(*kms.Options)) (*kms.GenerateDataKeyWithoutPlaintextOutput, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	blob, err := k.wrap(*in.KeyId, bytes.Repeat([]byte{byte(len(k.wrapped) + 1)}, seal.KeyBytes), in.EncryptionContext) //nolint:gosec // G115: of a few
	return &kms.GenerateDataKeyWithoutPlaintextOutput{CiphertextBlob: blob}, err
}

// Encrypt implements rootkey.Mover.
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
	const spelled = 2
	if len(in.CiphertextBlob) != spelled || int(in.CiphertextBlob[1]) >= len(k.wrapped) {
		return nil, refuse("InvalidCiphertextException")
	}
	w := k.wrapped[in.CiphertextBlob[1]]
	switch {
	case w.by != *in.KeyId:
		return nil, refuse("IncorrectKeyException")
	case w.purpose != purpose(in.EncryptionContext):
		return nil, refuse("InvalidCiphertextException")
	}
	return &kms.DecryptOutput{Plaintext: bytes.Clone(w.key)}, nil
}

func (k *KMS) wrap(id string, key []byte, of map[string]string) ([]byte, error) {
	if err := k.enabled(id); err != nil {
		return nil, err
	}
	k.wrapped = append(k.wrapped, wrapped{id, purpose(of), key})
	return []byte{'w', byte(len(k.wrapped) - 1)}, nil //nolint:gosec // G115: of a few
}

func (k *KMS) enabled(id string) error {
	switch on, there := k.keys[id]; {
	case !there:
		return refuse("NotFoundException")
	case !on:
		return refuse("DisabledException")
	}
	return nil
}

func purpose(of map[string]string) string {
	var out strings.Builder
	for name, value := range maps.All(of) {
		_, _ = fmt.Fprintf(&out, "%s=%s;", name, value)
	}
	return out.String()
}

// refuse is an error as AWS has it.
func refuse(code string) error { return &smithy.GenericAPIError{Code: code, Message: "no"} }
