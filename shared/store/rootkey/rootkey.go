// Package rootkey keeps the installation's root key: a KMS key wraps it,
// and the table has it wrapped, where every process reads it. On a laptop and on one server it lies in a file
// (InFile), and the table says what became of the first one.
//
// What it is not: it seals nothing. Package seal does, with the key that the
// source made here gives it. Nor does it rotate the root key: package rotation does, by the writes made here.
//
// Read this file, then turn.go, which has the writes of a rotation; move.go is for an installation that moves into AWS or out of it, wrap.go for
// one whose root key another KMS key shall wrap. The reasons are in docs/decisions/0004-one-root-key.md and
// 0060-root-keys-follow-one-another.md.
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

const (
	// maxAge is how long a process goes on with a root key that was disabled in
	// KMS, and so how often each process asks KMS; and with those before a rotation's next stage.
	maxAge = time.Hour
	// maxFileAge is maxAge where files have the keys, which costs a read of the table alone.
	maxFileAge = time.Minute
)

// Source is an installation's root keys.
type Source struct {
	*seal.Wrapped
	keys keyStore
	// files are nil where KMS wraps the keys.
	files *seal.Files
	// settled is told which key the key file has from then on, before it has.
	settled func(check string) error
}

// New makes a source that has the KMS key with that id or ARN wrap the root
// key. It makes no request; the first use does.
func New(client Client, keyID string, table *store.Table, now func() time.Time) *Source {
	keys := keyStore{table: table, now: now}
	return &Source{Wrapped: seal.NewWrapped(wrapper{client, keyID}, keys, maxAge, now), keys: keys}
}

// InFile makes a source of a root key in a file (seal.Files). settled, nil for nobody, is told the check (seal.Check) of
// the key that is about to take the place of the one in the file.
func InFile(path string, table *store.Table, now func() time.Time, settled func(check string) error) *Source {
	files := seal.OpenFiles(path)
	keys := keyStore{table: table, now: now, first: files.Current}
	return &Source{Wrapped: seal.NewWrapped(files, keys, maxFileAge, now), keys: keys, files: files, settled: settled}
}

// Existing gives the root keys that there are, two while they are rotated, and never makes one: it answers ErrNone where there is none.
func (s *Source) Existing(ctx context.Context) (*seal.Ring, error) {
	switch _, there, err := s.keys.record(ctx); {
	case err != nil:
		return nil, fmt.Errorf("read the root key's record: %w", err)
	case !there && s.keys.first == nil:
		return nil, ErrNone
	}
	return s.Ring(ctx)
}

// wrapper is a seal.Wrapper over KMS.
type wrapper struct {
	client Client
	keyID  string
}

var _ seal.Wrapper = wrapper{}

// Purpose returns the encryption context of the wrapped root key: KMS logs it with every use and unwraps
// nothing without it.
func Purpose() map[string]string { return map[string]string{"gatewright": "root-key"} }

func (w wrapper) Generate(ctx context.Context) ([]byte, error) {
	out, err := w.client.GenerateDataKeyWithoutPlaintext(lasting(ctx), &kms.GenerateDataKeyWithoutPlaintextInput{
		KeyId: &w.keyID, KeySpec: types.DataKeySpecAes256, EncryptionContext: Purpose(),
	})
	if err != nil {
		return nil, fmt.Errorf("generate a data key: %w", err)
	}
	return out.CiphertextBlob, nil
}

func (w wrapper) Unwrap(ctx context.Context, wrapped []byte) ([]byte, error) {
	out, err := w.client.Decrypt(ctx, &kms.DecryptInput{
		KeyId: &w.keyID, CiphertextBlob: wrapped, EncryptionContext: Purpose(),
	})
	if err != nil {
		return nil, fmt.Errorf("decrypt a data key: %w", err)
	}
	return out.Plaintext, nil
}

// space has one record, the root keys as KMS has wrapped them. Each process that
// seals or hashes reads it once in an age.
const space store.Space = "root-key"

// keyStore is a seal.KeyStore over the table.
type keyStore struct {
	table *store.Table
	now   func() time.Time
	// first gives the first root key where the table has none of its own: it lies in a file.
	first func(context.Context) ([]byte, error)
}

var _ seal.KeyStore = keyStore{}

// rootKeyRecord is the one item. Earlier releases know Wrapped and CreatedOn of it.
type rootKeyRecord struct {
	store.Rest

	// Wrapped is the root key that writes. In the table a later one than the first is in another place, where releases that know one
	// root key do not find it: they fail, in place of refusing every key and of keeping what no other process finds.
	Wrapped   []byte    `dynamodbav:"wrapped"`
	Later     []byte    `dynamodbav:"wrappedLater,omitempty"`
	CreatedOn time.Time `dynamodbav:"createdOn"`
	// Also is the same key wrapped by another KMS key, while the installation goes over to that one.
	Also []byte `dynamodbav:"also,omitempty"`
	// Number is which one it is, 0 for the first. Lineage is what it has of those before it, sealed.
	Number  int    `dynamodbav:"number,omitempty"`
	Lineage []byte `dynamodbav:"lineage,omitempty"`
	// Other is the second one, while a rotation goes on.
	Other *otherRecord `dynamodbav:"other,omitempty"`
	// Rotation is the one that goes on, or that was last.
	Rotation *rotationRecord `dynamodbav:"rotation,omitempty"`
	// Turns counts the changes of the record.
	Turns int64 `dynamodbav:"turns,omitempty"`
}

// otherRecord is a root key beside the one that writes: the next one, or the one before.
type otherRecord struct {
	store.Rest

	Wrapped   []byte    `dynamodbav:"wrapped"`
	CreatedOn time.Time `dynamodbav:"createdOn"`
	Number    int       `dynamodbav:"number,omitempty"`
	Lineage   []byte    `dynamodbav:"lineage,omitempty"`
}

// rotationRecord names the operation of a rotation.
type rotationRecord struct {
	store.Rest

	Operation string     `dynamodbav:"operation"`
	BeganOn   time.Time  `dynamodbav:"beganOn"`
	EndedOn   *time.Time `dynamodbav:"endedOn,omitempty"`
}

// ring gives the record as package seal takes it.
func (r rootKeyRecord) ring() *seal.StoredRing {
	out := &seal.StoredRing{Writing: max(1, r.Number)}
	out.Roots = append(out.Roots, seal.StoredRoot{Number: out.Writing, Wrapped: r.Wrapped, Also: r.Also, Lineage: r.Lineage})
	if o := r.Other; o != nil {
		out.Roots = append(out.Roots, seal.StoredRoot{Number: max(1, o.Number), Wrapped: o.Wrapped, Lineage: o.Lineage})
	}
	return out
}

// apart takes a key's first use out of the change that it is used for: in a process
// that has no root key yet, it comes in the middle of one.
func apart(ctx context.Context) context.Context {
	return store.Undecided(lasting(ctx), "which root keys there are decides no change")
}

// lasting takes it out of a dry run as well: a key that was kept in memory alone would
// seal what nobody can open.
func lasting(ctx context.Context) context.Context {
	return dryrun.Outside(ctx, "the root key is the installation's, and of no change")
}

// kept is the record as the table has it.
func (r rootKeyRecord) kept() rootKeyRecord {
	if r.Number > 1 {
		r.Wrapped, r.Later = nil, r.Wrapped
	}
	return r
}

// asRead is the condition that the table has the root key that was read.
func (r rootKeyRecord) asRead(w store.Write) store.Write {
	if r.Number > 1 {
		return w.If(store.Equal(store.At("wrappedLater"), r.Wrapped))
	}
	return w.If(store.Equal(store.At("wrapped"), r.Wrapped))
}

// record reads the record, and whether there is one.
func (s keyStore) record(ctx context.Context) (r rootKeyRecord, there bool, err error) {
	err = s.table.Get(apart(ctx), space.Key(), &r)
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
	r, there, err := s.record(ctx)
	if err == nil && !there && s.first != nil {
		r.Wrapped, err = s.first(ctx)
		there = true
	}
	if err != nil || !there {
		return nil, err
	}
	return r.ring(), nil
}

// Create implements seal.KeyStore.
func (s keyStore) Create(ctx context.Context, wrapped []byte) (*seal.StoredRing, error) {
	made := rootKeyRecord{Wrapped: wrapped, CreatedOn: s.now().UTC()}
	err := s.table.Commit(apart(ctx), store.Create(space.Key(), made))
	if err != nil && !errors.Is(err, store.ErrCondition) {
		return nil, err
	}
	stored, err := s.Load(ctx)
	if err == nil && stored == nil {
		stored = made.ring()
	}
	return stored, err
}
