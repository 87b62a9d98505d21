// Package rootkey keeps the installation's root key in AWS: a KMS key wraps it,
// and the table has it wrapped, where every process reads it.
//
// What it is not: it seals nothing. Package seal does, with the key that the
// source made here gives it; on a laptop it takes seal.OpenFile instead.
//
// Read this file; move.go is for an installation that moves into AWS or out of it. The reasons are in docs/decisions/0004-one-root-key.md.
package rootkey

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/gatewright/gatewright/shared/dryrun"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
)

// Client is the part of *kms.Client that is called.
type Client interface {
	GenerateDataKeyWithoutPlaintext(context.Context, *kms.GenerateDataKeyWithoutPlaintextInput, ...func(*kms.Options)) (*kms.GenerateDataKeyWithoutPlaintextOutput, error)
	Decrypt(context.Context, *kms.DecryptInput, ...func(*kms.Options)) (*kms.DecryptOutput, error)
}

var _ Client = (*kms.Client)(nil)

// maxAge is how long a process goes on with a root key that was disabled in
// KMS, and so how often each process asks KMS.
const maxAge = time.Hour

// New makes a source that has the KMS key with that id or ARN wrap the root
// key. It makes no request; the first use does.
func New(client Client, keyID string, table *store.Table, now func() time.Time) *seal.Wrapped {
	return seal.NewWrapped(wrapper{client, keyID}, keyStore{table, now}, maxAge, now)
}

// wrapper is a seal.Wrapper over KMS.
type wrapper struct {
	client Client
	keyID  string
}

var _ seal.Wrapper = wrapper{}

// purpose is the encryption context: KMS logs it with every use and unwraps
// nothing without it.
func purpose() map[string]string { return map[string]string{"gatewright": "root-key"} }

func (w wrapper) Generate(ctx context.Context) ([]byte, error) {
	out, err := w.client.GenerateDataKeyWithoutPlaintext(lasting(ctx), &kms.GenerateDataKeyWithoutPlaintextInput{
		KeyId: &w.keyID, KeySpec: types.DataKeySpecAes256, EncryptionContext: purpose(),
	})
	if err != nil {
		return nil, fmt.Errorf("generate a data key: %w", err)
	}
	return out.CiphertextBlob, nil
}

func (w wrapper) Unwrap(ctx context.Context, wrapped []byte) ([]byte, error) {
	out, err := w.client.Decrypt(ctx, &kms.DecryptInput{
		KeyId: &w.keyID, CiphertextBlob: wrapped, EncryptionContext: purpose(),
	})
	if err != nil {
		return nil, fmt.Errorf("decrypt a data key: %w", err)
	}
	return out.Plaintext, nil
}

// space has one record, the root key as KMS has wrapped it. Each process that
// seals or hashes reads it once.
const space store.Space = "root-key"

// keyStore is a seal.KeyStore over the table.
type keyStore struct {
	table *store.Table
	now   func() time.Time
}

var _ seal.KeyStore = keyStore{}

// rootKeyRecord is the one item. It is written once and never changed.
type rootKeyRecord struct {
	Wrapped   []byte    `dynamodbav:"wrapped"`
	CreatedOn time.Time `dynamodbav:"createdOn"`
}

// apart takes a key's first use out of the change that it is used for: in a process
// that has no root key yet, it comes in the middle of one.
func apart(ctx context.Context) context.Context {
	return store.Undecided(lasting(ctx), "a root key is written once, and never changed")
}

// lasting takes it out of a dry run as well: a key that was kept in memory alone would
// seal what nobody can open.
func lasting(ctx context.Context) context.Context {
	return dryrun.Outside(ctx, "the root key is the installation's, and of no change")
}

func (s keyStore) Load(ctx context.Context) ([]byte, error) {
	var r rootKeyRecord
	err := s.table.Get(apart(ctx), space.Key(), &r)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return r.Wrapped, err
}

func (s keyStore) Create(ctx context.Context, wrapped []byte) ([]byte, error) {
	err := s.table.Commit(apart(ctx), store.Create(space.Key(), rootKeyRecord{wrapped, s.now().UTC()}))
	if err == nil || errors.Is(err, store.ErrCondition) {
		return s.Load(ctx)
	}
	return nil, err
}
