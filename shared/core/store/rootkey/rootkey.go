// Package rootkey keeps the installation's root key. A KMS key wraps it, and the wrapped key is in the table, where
// every process reads it. In a local run and on a single server the root key is in a file (NewFile), and the table
// records its rotations.
//
// The package does not seal anything: package seal does, with the key from the Source of this
// package. Nor does it carry out rotations: package rotation does, with the writes of this package.
//
// Read this file first, then rotation.go, which has the writes of a rotation. exchange.go moves the root
// key of an installation into AWS or out of AWS, and wrap.go changes the KMS key that wraps the root
// key. The reasons are in docs/decisions/0004-one-root-key.md and 0060-root-keys-follow-one-another.md.
package rootkey

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/gatewright/gatewright/shared/base/dryrun"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
)

// Client is the part of *kms.Client that this package calls.
type Client interface {
	GenerateDataKeyWithoutPlaintext(context.Context, *kms.GenerateDataKeyWithoutPlaintextInput,
		...func(*kms.Options)) (*kms.GenerateDataKeyWithoutPlaintextOutput, error)
	Decrypt(context.Context, *kms.DecryptInput, ...func(*kms.Options)) (*kms.DecryptOutput, error)
}

var _ Client = (*kms.Client)(nil)

const (
	// maxAge is how long a process keeps root keys in memory before it reads and unwraps them again. For this time,
	// a process may continue to work after the KMS key was disabled, and may use the root keys of a rotation's
	// previous stage.
	maxAge = time.Hour
	// maxFileAge is the maxAge for root keys in files, where a refresh only costs a read of the table.
	maxFileAge = time.Minute
)

// Source holds an installation's root keys.
type Source struct {
	*seal.Wrapped
	keys keyStore
	// files is nil if KMS wraps the keys.
	files *seal.Files
	// beforeReplace is called before the key file is replaced. Its argument identifies the next key (seal.RootKeyHash).
	beforeReplace func(identifier string) error
}

// New returns a source whose root key is wrapped by the KMS key with that
// id or ARN. New makes no request. The first use of the source does.
func New(client Client, keyID string, table *store.Table, now func() time.Time) *Source {
	keys := keyStore{table: table, now: now}
	return &Source{Wrapped: seal.NewWrapped(wrapper{client, keyID}, keys, maxAge, now), keys: keys}
}

// NewFile returns a source for a root key in a file (seal.Files). If beforeReplace is not nil, it is called before the
// next key replaces the key in the file. Its argument identifies the next key (seal.RootKeyHash).
func NewFile(
	path string, table *store.Table, now func() time.Time, beforeReplace func(identifier string) error,
) *Source {
	files := seal.OpenFiles(path)
	keys := keyStore{table: table, now: now, firstKey: files.Current}
	return &Source{
		Wrapped: seal.NewWrapped(files, keys, maxFileAge, now), keys: keys, files: files,
		beforeReplace: beforeReplace,
	}
}

// Existing returns the existing root keys: one, or two during a rotation. If KMS wraps the keys, Existing never creates
// a root key, and returns ErrNoRootKey if there is none. If the root key is in a file, Existing creates a missing file,
// unless the table has a record of the root key. Then a missing file is an error.
func (s *Source) Existing(ctx context.Context) (*seal.Ring, error) {
	switch _, exists, err := s.keys.record(ctx); {
	case err != nil:
		return nil, fmt.Errorf("read the root key's record: %w", err)
	case !exists && s.keys.firstKey == nil:
		return nil, ErrNoRootKey
	}
	return s.Ring(ctx)
}

// wrapper is a seal.Wrapper over KMS.
type wrapper struct {
	client Client
	keyID  string
}

var _ seal.Wrapper = wrapper{}

// EncryptionContext returns the encryption context of the wrapped root key. KMS logs the
// context with every use of the KMS key, and does not unwrap the root key without it.
func EncryptionContext() map[string]string { return map[string]string{"gatewright": "root-key"} }

func (w wrapper) Generate(ctx context.Context) ([]byte, error) {
	out, err := w.client.GenerateDataKeyWithoutPlaintext(outsideDryRun(ctx), &kms.GenerateDataKeyWithoutPlaintextInput{
		KeyId: &w.keyID, KeySpec: types.DataKeySpecAes256, EncryptionContext: EncryptionContext(),
	})
	if err != nil {
		return nil, fmt.Errorf("generate a data key: %w", err)
	}
	return out.CiphertextBlob, nil
}

func (w wrapper) Unwrap(ctx context.Context, wrapped []byte) ([]byte, error) {
	out, err := w.client.Decrypt(ctx, &kms.DecryptInput{
		KeyId: &w.keyID, CiphertextBlob: wrapped, EncryptionContext: EncryptionContext(),
	})
	if err != nil {
		return nil, fmt.Errorf("decrypt a data key: %w", err)
	}
	return out.Plaintext, nil
}

// recordPrefix is the key prefix of one record. The record has the root keys that KMS has wrapped, or the identifiers
// (seal.RootKeyHash) of root keys in files. Each process that seals or hashes reads the record once per maxAge, or once
// per maxFileAge if the root key is in a file.
const recordPrefix store.KeyPrefix = "root-key"

// keyStore is a seal.KeyStore over the table.
type keyStore struct {
	table *store.Table
	now   func() time.Time
	// firstKey returns the wrapped form of the root key in the key file,
	// for a table without a record. It is nil if KMS wraps the keys.
	firstKey func(context.Context) ([]byte, error)
}

var _ seal.KeyStore = keyStore{}

// rootKeyRecord is the only item of recordPrefix. Earlier releases know only its attributes Wrapped and CreatedOn.
type rootKeyRecord struct {
	store.UnknownAttributes

	// Wrapped is the current root key, which seals new data. The table stores the first root key in the attribute
	// of Wrapped, and each later root key in the attribute of Later. A release that knows only one root key reads
	// only the attribute of Wrapped, so it fails after a rotation. Otherwise it would refuse all keys of clients,
	// and store data that no other process finds.
	Wrapped   []byte    `dynamodbav:"wrapped"`
	Later     []byte    `dynamodbav:"wrappedLater,omitempty"`
	CreatedOn time.Time `dynamodbav:"createdOn"`
	// WrappedAlternate is the same root key as in Wrapped, wrapped by another KMS key. It
	// exists while the installation changes to that KMS key.
	WrappedAlternate []byte `dynamodbav:"also,omitempty"`
	// Number is the number of the root key, 0 for the first root
	// key. Lineage is the root key's sealed lineage (seal.Lineage).
	Number  int    `dynamodbav:"number,omitempty"`
	Lineage []byte `dynamodbav:"lineage,omitempty"`
	// Other is the second root key during a rotation.
	Other *otherRecord `dynamodbav:"other,omitempty"`
	// Rotation is the current rotation, or the previous one if no rotation is in progress.
	Rotation *rotationRecord `dynamodbav:"rotation,omitempty"`
	// Revision counts the changes of the record.
	Revision int64 `dynamodbav:"turns,omitempty"`
}

// otherRecord is the second root key during a rotation: the next
// root key before the switch, and the previous root key after it.
type otherRecord struct {
	store.UnknownAttributes

	Wrapped   []byte    `dynamodbav:"wrapped"`
	CreatedOn time.Time `dynamodbav:"createdOn"`
	Number    int       `dynamodbav:"number,omitempty"`
	Lineage   []byte    `dynamodbav:"lineage,omitempty"`
}

// rotationRecord describes the current rotation, or the previous one.
type rotationRecord struct {
	store.UnknownAttributes

	Operation string     `dynamodbav:"operation"`
	BeganOn   time.Time  `dynamodbav:"beganOn"`
	EndedOn   *time.Time `dynamodbav:"endedOn,omitempty"`
}

// ring converts the record for package seal.
func (r rootKeyRecord) ring() *seal.StoredRing {
	out := &seal.StoredRing{Primary: max(1, r.Number)}
	out.Roots = append(out.Roots, seal.StoredRoot{
		Number: out.Primary, Wrapped: r.Wrapped, WrappedAlternate: r.WrappedAlternate,
		Lineage: r.Lineage,
	})
	if o := r.Other; o != nil {
		out.Roots = append(out.Roots, seal.StoredRoot{Number: max(1, o.Number), Wrapped: o.Wrapped, Lineage: o.Lineage})
	}
	return out
}

// detached returns a context whose reads and writes are not part of the current change, nor of a dry
// run. A process reads or creates the root key at its first use, which can be in the middle of a change.
func detached(ctx context.Context) context.Context {
	return store.WithoutReadSet(outsideDryRun(ctx), "no change depends on the root keys")
}

// outsideDryRun returns a context outside a dry run. Otherwise a dry run could create a root
// key that exists only in memory, and data that is sealed with this key could never be opened.
func outsideDryRun(ctx context.Context) context.Context {
	return dryrun.Exempt(ctx, "the root key belongs to the installation, and not to a change")
}

// storedForm returns the record in the form that the table stores.
func (r rootKeyRecord) storedForm() rootKeyRecord {
	if r.Number > 1 {
		r.Wrapped, r.Later = nil, r.Wrapped
	}
	return r
}

// ifUnchanged adds the condition that the table still has the root key that was read.
func (r rootKeyRecord) ifUnchanged(w store.Write) store.Write {
	if r.Number > 1 {
		return w.If(store.Equal(store.At("wrappedLater"), r.Wrapped))
	}
	return w.If(store.Equal(store.At("wrapped"), r.Wrapped))
}

// record reads the record, and reports whether it exists.
func (s keyStore) record(ctx context.Context) (r rootKeyRecord, exists bool, err error) {
	err = s.table.Get(detached(ctx), recordPrefix.Key(), &r)
	if r.Later != nil {
		r.Wrapped, r.Later = r.Later, nil
	}
	if errors.Is(err, store.ErrNotFound) {
		return r, false, nil
	}
	return r, err == nil, err
}

// Load implements seal.KeyStore.
func (s keyStore) Load(ctx context.Context) (*seal.StoredRing, error) {
	r, exists, err := s.record(ctx)
	if err == nil && !exists && s.firstKey != nil {
		r.Wrapped, err = s.firstKey(ctx)
		exists = true
	}
	if err != nil || !exists {
		return nil, err
	}
	return r.ring(), nil
}

// Create implements seal.KeyStore.
func (s keyStore) Create(ctx context.Context, wrapped []byte) (*seal.StoredRing, error) {
	created := rootKeyRecord{Wrapped: wrapped, CreatedOn: s.now().UTC()}
	err := s.table.Commit(detached(ctx), store.Create(recordPrefix.Key(), created))
	if err != nil && !errors.Is(err, store.ErrCondition) {
		return nil, err
	}
	stored, err := s.Load(ctx)
	if err == nil && stored == nil {
		stored = created.ring()
	}
	return stored, err
}
